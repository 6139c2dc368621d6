"""A worker killed in mid-round: the time until another worker has taken over the round, on the deployed local stage.

The worker that decides is killed while the model streams. That leads to Step Functions' first interval, a
cold start and the batch by which the next attempt takes the round; its time is in the log.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.row import Limit, MeasureError, Row
from bench.stage import STEPLINE, stepline
from stepline.local.stage.deployed import LocalStage
from stepline.local.stage.lifecycle import stage_status, start_stage

RUNS = 5
GOAL_TIMES = 2.5
INTERVAL_S = 2.0
TOKEN_DELAY_MS = 60
PROMPT = "Tell me about the word {word}."
HANDLER = b"lambdas.decide.handler"


def rows() -> list[Row]:
    """Return `recovery_s_after_kill`; the stage is started if it is not up."""
    found = stage_status()
    stage = (
        found.stage if found.stage and found.up else start_stage(lambda text: print(text, file=sys.stderr))
    )
    times_s = [_recover(stage) for _ in range(RUNS)]
    return [
        Row(
            metric="recovery_s_after_kill",
            value=round(statistics.median(times_s), 2),
            unit="s",
            limit=Limit("the retry's first interval", INTERVAL_S),
            goal_times=GOAL_TIMES,
            note=f"median of {RUNS} on the emulator, {min(times_s):.2f} to {max(times_s):.2f}; the worker of Decide, killed "
            "while the model streams, until the batch of the next attempt",
        )
    ]


def _recover(stage: LocalStage) -> float:
    """Kill the worker that decides a new turn; return the seconds until the round is taken again."""
    conversation, word = f"bench-{secrets.token_hex(6)}", f"w{secrets.token_hex(5)}"
    write_slowly(stage, word)
    command = [STEPLINE, "send", PROMPT.format(word=word), "--conversation", conversation, "--new"]
    with subprocess.Popen(
        [*command, "--user", "bench", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as client:
        lines = (json.loads(line) for line in client.stdout or ())
        if not any(line["frame"] == "delta" for line in lines):
            raise MeasureError("the turn ended before it streamed")
        killed_s = time.time()
        if not _kill(stage):
            raise MeasureError("no process decides")
        ended = [line["type"] for line in lines if line.get("terminal")]
    if ended != ["chat.complete"]:
        raise MeasureError(f"the turn ended with {ended}")
    return min(at_s for at_s in _taken(conversation) if at_s > killed_s) - killed_s


def _taken(conversation: str) -> list[float]:
    """Return the times of attempts to take a conversation's rounds, in seconds since the epoch."""
    return [
        datetime.fromisoformat(batch["at"]).timestamp()
        for batch in stepline("log", conversation, "--json")
        if any(entry["kind"] == "reopened" for entry in batch["entries"])
    ]


def _kill(stage: LocalStage) -> int:
    """Kill the processes that decide for this stage; return their number."""
    workers = [process for process in Path("/proc").iterdir() if process.name.isdigit()]
    pids = [int(process.name) for process in workers if _decides(process, stage.endpoint)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


def _decides(process: Path, endpoint: str) -> bool:
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")
        environment = (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False
    return HANDLER in command and f"AWS_ENDPOINT_URL={endpoint}".encode() in environment


def write_slowly(stage: LocalStage, word: str, delay_ms: int = TOKEN_DELAY_MS) -> None:
    """Make the scripted model slow for the first request that contains `word`."""
    fault: dict[str, Any] = {"kind": "slow_tokens", "token_delay_ms": delay_ms, "match": word}
    request = urllib.request.Request(
        f"{stage.model_url}/control/faults", data=json.dumps(fault).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10):
        return
