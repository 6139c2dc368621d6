"""The first token of a turn on the local stage with every worker new, and of a function that only asks the model.

That function is the simplest one: the provider's SDK, one request, its first piece of text returned. Its worker
is new, too. Both are timed from the client's message, or call, to that text.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import signal
import statistics
import sys
import time
import zipfile
from pathlib import Path
from typing import Final

from bench.row import MeasureError, Row
from stepline.local.client.websocket import dial_gateway, encode_request
from stepline.local.stage.deployed import LocalStage, client
from stepline.local.stage.issuer.signing import sign_token
from stepline.local.stage.lifecycle import stage_status, start_stage
from stepline.model.wire.event import DeltaFrame, ErrorFrame, decode_frame
from stepline_cdk.code import render_bootstrap

ROUNDS: Final = 5
GOAL: Final = 1.5
WAIT_S: Final = 60
BARE: Final = "stepline-bench-bare"
TEXT: Final = "Tell me about cold starts."
HANDLER: Final = """\
import anthropic, os

def handler(event, context):
    client = anthropic.Anthropic(api_key="scripted", base_url=os.environ["MODEL_URL"])
    asked = {"model": "claude-sonnet-5", "max_tokens": 1000, "stream": True}
    with client.messages.create(messages=[{"role": "user", "content": event["text"]}], **asked) as stream:
        return next(one.delta.text for one in stream if one.type == "content_block_delta" and one.delta.type == "text_delta")
"""


def rows() -> list[Row]:
    """Return `cold_first_token`; the stage is started if it is not up."""
    found = stage_status()
    stage = (
        found.stage if found.stage and found.up else start_stage(lambda text: print(text, file=sys.stderr))
    )
    functions = client("lambda", stage)
    _create(stage)
    try:
        ours_s, bare_s = [], []
        for _ in range(ROUNDS):
            ours_s.append(_first_delta_s(stage))
            bare_s.append(_bare_s(stage))
    finally:
        functions.delete_function(FunctionName=BARE)
    ours, bare = statistics.median(ours_s), statistics.median(bare_s)
    return [
        Row(
            metric="cold_first_token",
            value=round(ours / bare, 2),
            unit="x",
            goal=GOAL,
            note=f"{ours:.2f} s from the message to the first piece of text, over {bare:.2f} s of a function that asks the model "
            f"with the provider's SDK; on the emulator, every worker new, median of {ROUNDS}",
        )
    ]


def _create(stage: LocalStage) -> None:
    """Deploy the function that only asks the model, as the stage deploys its own."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        script = zipfile.ZipInfo("bootstrap")
        script.external_attr = 0o755 << 16
        archive.writestr(script, render_bootstrap(str(Path(sys.prefix) / "bin/python"), BARE))
        archive.writestr("bare.py", HANDLER)
    functions = client("lambda", stage)
    role = functions.get_function_configuration(FunctionName="stepline-local-decide")["Role"]
    functions.create_function(
        FunctionName=BARE,
        Runtime="provided.al2023",
        Handler="bare.handler",
        Role=role,
        Timeout=WAIT_S,
        MemorySize=1024,
        Code={"ZipFile": made.getvalue()},
        Environment={"Variables": {"MODEL_URL": stage.model_url}},
    )


def _bare_s(stage: LocalStage) -> float:
    end_workers(stage)
    functions = client("lambda", stage)
    began_s = time.perf_counter()
    answer = functions.invoke(FunctionName=BARE, Payload=json.dumps({"text": TEXT}))
    spent_s = time.perf_counter() - began_s
    if "FunctionError" in answer:
        raise MeasureError(answer["Payload"].read().decode())
    return spent_s


def _first_delta_s(stage: LocalStage) -> float:
    """Return the seconds from a message of a connected client to its first piece of text."""
    token = sign_token("bench", issuer_url=stage.issuer_url, home=Path(stage.home))
    with dial_gateway(stage.socket_url, lambda: token)() as connection:
        end_workers(stage)
        said = {
            "action": "send",
            "conversation": f"bench-{secrets.token_hex(6)}",
            "message_id": secrets.token_hex(8),
            "text": TEXT,
        }
        began_s = time.perf_counter()
        connection.send(encode_request(said))
        spent_s = 0.0
        while True:
            frame = decode_frame(connection.recv(timeout=WAIT_S))
            if isinstance(frame, ErrorFrame):
                raise MeasureError(frame.message)
            if isinstance(frame, DeltaFrame) and not spent_s:
                spent_s = time.perf_counter() - began_s
            if _ends(frame):
                return spent_s


def _ends(frame: object) -> bool:
    return any(event.type in ("chat.complete", "chat.error") for event in getattr(frame, "events", ()))


def end_workers(stage: LocalStage) -> None:
    """End every process of a function of this stage; the emulator starts a new one where it finds one ended."""
    killed = [process for process in Path("/proc").iterdir() if _kill(process, stage.endpoint)]
    while any(_runs(process) for process in killed):
        time.sleep(0.01)


def _kill(process: Path, endpoint: str) -> bool:
    """Kill a process if it is a function's."""
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")
        environment = (process / "environ").read_bytes().split(b"\0")
    except OSError:  # no process, or it has ended, or belongs to another user
        return False
    if b"awslambdaric" not in command or f"AWS_ENDPOINT_URL={endpoint}".encode() not in environment:
        return False
    os.kill(int(process.name), signal.SIGKILL)
    return True


def _runs(process: Path) -> bool:
    """Return whether a killed process has not ended yet; one that is ended waits for its parent as a zombie."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
