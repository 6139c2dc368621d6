"""The bundle of Stepline's column, as a template: two tools with the contract of `bench/torture/effects.py`."""

from __future__ import annotations

from typing import Final

from bench.torture.subject import INSTRUCTIONS, NEXT_INSTRUCTIONS, Release

_BUNDLE: Final = '''
"""{instructions}"""

import os
import signal
import time
from pathlib import Path

from stepline import BaseWorkflow, Tool, ToolOutput, ToolSpec

FOLDER = Path({folder!r})
SCHEMA = {{
    "type": "object",
    "additionalProperties": False,
    "required": ["word"],
    "properties": {{"word": {{"type": "string", "description": "the word"}}}},
}}


def spec(name, approval):
    return ToolSpec(
        tool_id=f"torture.{{name}}",
        purpose=f"Do `{{name}}` with a word.",
        schema=SCHEMA,
        returns="a sentence",
        effect="once",
        read_only=False,
        approval=approval,
    )


def runner(tool_id, done):
    def run(params, context):
        word = params["word"]
        with (FOLDER / "ledger").open("a") as ledger:
            ledger.write(f"{{word}}\\n")
        if (FOLDER / f"kill.{{word}}").exists():
            (FOLDER / f"kill.{{word}}").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        while (FOLDER / f"hold.{{word}}").exists():
            time.sleep(0.05)
        return ToolOutput(blocks=(context.result(tool_id, {{"status": "ok", "text": f"{{done}} {{word}}"}}),))

    return run


NAMES = {names!r}
TOOLS = tuple(
    Tool(spec=spec(name, "always" if name == "pay" else "never"), run=runner(f"torture.{{name}}", done))
    for name, done in NAMES.items()
)


class Tortured(BaseWorkflow):
    tools_module = __name__


WORKFLOW = Tortured
'''


def bundle_text(folder: str, release: Release) -> str:
    """Return the module of a release, whose tools keep their ledger in a folder."""
    names = {"note": "noted", "pay": "paid"}
    if release == "next":
        names = {"look": "looked", **names}
    instructions = NEXT_INSTRUCTIONS if release == "next" else INSTRUCTIONS
    return _BUNDLE.format(instructions=instructions, folder=folder, names=names)


THROTTLED: Final = '''
"""The function `{name}`, whose calls of DynamoDB are throttled until the time that a file names."""

import json
import time
from pathlib import Path

from botocore.awsrequest import AWSResponse
from botocore.endpoint import Endpoint

from lambdas._before.{name} import handler

FLAG = Path({flag!r})
send = Endpoint._send


class Body:
    def __init__(self, body):
        self._body = body

    def stream(self, **_):
        yield self._body


def throttled_send(self, request):
    try:
        throttled = self._endpoint_prefix == "dynamodb" and time.time() < float(FLAG.read_text())
    except OSError:
        throttled = False
    if not throttled:
        return send(self, request)
    kind = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
    text = "The level of configured provisioned throughput for the table was exceeded."
    headers = {{"Content-Type": "application/x-amz-json-1.0", "x-amzn-RequestId": "throttled"}}
    return AWSResponse(request.url, 400, headers, Body(json.dumps({{"__type": kind, "message": text}}).encode()))


Endpoint._send = throttled_send
'''
"""The source of a later release of a function, for `tests/e2e/release.py`."""
