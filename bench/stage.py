"""Turns through the deployed local stage: the overhead of a tool round beside its model, and its transitions.

The scripted model answers without delay. Times come from the execution's history, the model's own from the
log.
"""

from __future__ import annotations

import itertools
import json
import secrets
import statistics
import subprocess
import sys
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.budget import BUDGETS
from bench.row import MeasureError, Row
from stepline.local.stage.deployed import LocalStage, client
from stepline.local.stage.lifecycle import stage_status, start_stage
from stepline.model.ids import execution_name, make_lane

STEPLINE = str(Path(sys.executable).with_name("stepline"))
TEXT = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
TURNS = 6
TURN_S = 300
FAULTS = 8


def rows() -> list[Row]:
    """Return `overhead_ms_per_round` and `transitions_per_tool_round`; the stage is started if it is not up."""
    found = stage_status()
    stage = (
        found.stage if found.stage and found.up else start_stage(lambda text: print(text, file=sys.stderr))
    )
    rounds = [one for turn in range(TURNS) for one in _tool_rounds(stage, is_first=turn == 0)]
    overheads = [overhead_ms for overhead_ms, _ in rounds]
    note = (
        f"median of {len(rounds)} tool rounds on the emulator, {min(overheads):.0f} to {max(overheads):.0f}; "
        "from one Decide to the next, less the model's time"
    )
    return [
        Row(
            metric="overhead_ms_per_round", value=round(statistics.median(overheads), 1), unit="ms", note=note
        ),
        Row(
            metric="transitions_per_tool_round",
            value=max(transitions for _, transitions in rounds),
            unit="transitions",
            goal=BUDGETS["transitions_per_tool_round"].aim,
            note="the most of any round, from the executions' history",
        ),
    ]


def _tool_rounds(stage: LocalStage, *, is_first: bool) -> list[tuple[float, int]]:
    """Run one turn; return its rounds' overheads and transitions, none for the turn that warms the functions."""
    conversation, word = f"bench-{secrets.token_hex(6)}", f"w{secrets.token_hex(5)}"
    _answer_without_pause(stage, word)
    lines = stepline(
        "send", TEXT.format(word=word), "--conversation", conversation, "--new", "--user", "bench", "--json"
    )
    if is_first:
        return []
    epoch = next(line["n"] for line in lines if line.get("type") == "chat.start")
    entered = _entered(stage, execution_name(make_lane("local", "default", conversation), epoch))
    decides = [at for at, (name, _) in enumerate(entered) if name == "Decide"]
    batches = stepline("log", conversation, "--json")
    models_ms = [
        _ms(entry["started_at"], batch["at"])
        for batch in batches
        for entry in batch["entries"]
        if entry["kind"] == "decision"
    ]
    return [
        ((entered[later][1] - entered[sooner][1]).total_seconds() * 1000 - model_ms, later - sooner)
        for (sooner, later), model_ms in zip(itertools.pairwise(decides), models_ms, strict=False)
    ]


def _entered(stage: LocalStage, execution: str) -> list[tuple[str, datetime]]:
    """Return the states of an execution in order of entry, with the times."""
    arn = stage.machine_arn.replace(":stateMachine:", ":execution:")
    pages = client("stepfunctions", stage).get_paginator("get_execution_history")
    return [
        (event["stateEnteredEventDetails"]["name"], event["timestamp"])
        for page in pages.paginate(executionArn=f"{arn}:{execution}")
        for event in page["events"]
        if event["type"].endswith("StateEntered")
    ]


def _answer_without_pause(stage: LocalStage, word: str) -> None:
    """Make the scripted model answer requests that contain `word` at once."""
    fault = {"kind": "slow_tokens", "token_delay_ms": 0, "count": FAULTS, "match": word}
    request = urllib.request.Request(
        f"{stage.model_url}/control/faults", data=json.dumps(fault).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10):
        return


def stepline(*arguments: str) -> list[dict[str, Any]]:
    """Return a command's JSON lines."""
    done = subprocess.run(
        [STEPLINE, *arguments],
        capture_output=True,
        text=True,
        timeout=TURN_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise MeasureError(f"stepline {arguments[0]} ended with {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _ms(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000
