"""Cold start of a function that calls a model, by the wire: CPU time up to its first request, and what it imports.

A new process imports Decide, makes its clients of DynamoDB and S3, and sends a request to a port at which no server listens.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from bench.imports import ROOT, cpu_ms_of
from bench.row import Limit, MeasureError, Row

ROUNDS: Final = 5
TIMES: Final = 1.1
PROVIDERS: Final = {
    "messages": "from stepline.adapters.anthropic.provider import AnthropicProvider as Provider",
    "chat": "from stepline.adapters.chat.provider import ChatProvider as Provider",
    "converse": "from stepline.adapters.converse.provider import ConverseProvider as Provider",
}
CALL: Final = """\
import os, sys
os.environ.update(AWS_ACCESS_KEY_ID="testing", AWS_SECRET_ACCESS_KEY="testing", AWS_DEFAULT_REGION="eu-central-1")
import lambdas.decide
from stepline.adapters.aws.client import connect
for service in ("dynamodb", "s3"):
    connect(service, read_timeout_s=5)
from stepline.adapters.provider.client import ProviderClient
from stepline.errors import ModelUnreachable
from stepline.ports.model import ModelRequest, Part, RoleChoice
before = set(sys.modules)
{provider}
client = ProviderClient(Provider(base_url="http://127.0.0.1:9", api_key=lambda: "key"), roles={{"*": RoleChoice(model="m")}})
asked = ModelRequest(role="*", system=(), content=(Part(text="hi"),), max_tokens=10)
stream = client.stream(asked)
stream.next_wait_s = lambda *_: None
try:
    list(stream)
except ModelUnreachable:
    pass
else:
    raise SystemExit("a server answered")
ours = ("stepline", *sys.stdlib_module_names)
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] not in ours))
"""


def rows() -> list[Row]:
    """Return `wire_cpu_ms_<wire>` and `wire_imports_<wire>`."""
    best = dict.fromkeys(PROVIDERS, float("inf"))
    for number in range(ROUNDS + 1):  # the first time writes bytecode and warms the disk
        for wire in PROVIDERS:
            spent_ms = cpu_ms_of(_program(wire))
            if number:
                best[wire] = min(best[wire], spent_ms)
    found = [
        Row(
            metric=f"wire_cpu_ms_{wire}",
            value=round(best[wire], 1),
            unit="ms CPU",
            limit=Limit("messages", round(best["messages"], 1)),
            goal_times=TIMES,
        )
        for wire in PROVIDERS
    ]
    counts = {wire: foreign_imports(wire) for wire in PROVIDERS}
    return [
        *found,
        *(
            Row(
                metric=f"wire_imports_{wire}",
                value=len(names),
                unit="modules",
                goal=0 if wire == "converse" else None,
                note=", ".join(sorted(names)),
            )
            for wire, names in counts.items()
        ),
    ]


def foreign_imports(wire: str) -> set[str]:
    """Return the modules of packages that a first call over a wire imports in addition to those that Decide has."""
    program = [sys.executable, "-c", _program(wire)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasureError(f"{wire}: {done.stderr[-2000:]}")
    return set(done.stdout.split())


def _program(wire: str) -> str:
    return CALL.format(provider=PROVIDERS[wire])
