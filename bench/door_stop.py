"""A turn that is stopped at each door while the model writes, beside a stop by our own client.

The stage is the deployed local one. A client of ours watches each turn, and sees when its last text arrives; what a door
sends over HTTP is timed where it is read. The endpoint for Durable Streams has no stop of its own.
"""

from __future__ import annotations

import json
import secrets
import statistics
import subprocess
import sys
from typing import Final

from bench.recovery import PROMPT, write_slowly
from bench.row import DOORS, Limit, MeasureError, Row
from stepline.local.caller import find_caller
from stepline.local.page.page_build import WEB
from stepline.local.stage.lifecycle import stage_status, start_stage

SAMPLES: Final = 7
DELAY_MS: Final = 200
"""So long between two tokens, a short answer is still being written when every reader has joined."""


def rows() -> list[Row]:
    """Return `door_stop_ms_<door>`; the stage is started if it is not up."""
    found = stage_status()
    stage = (
        found.stage if found.stage and found.up else start_stage(lambda text: print(text, file=sys.stderr))
    )
    caller = find_caller("", "bench", token="", token_command="")
    taken: dict[str, list[dict[str, float]]] = {door: [] for door in ("client", *DOORS)}
    command = ["node", "tests/bench/door_stop.ts"]
    with subprocess.Popen(
        command, cwd=WEB, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(SAMPLES + 1):
            for door, samples in taken.items():
                word = f"w{secrets.token_hex(5)}"
                write_slowly(stage, word, DELAY_MS)
                prompt = PROMPT.format(word=word)
                asked = {"door": door, "conversation": f"bench-{secrets.token_hex(6)}", "prompt": prompt}
                asked |= {"url": caller.api_url, "token": caller.token()}
                print(json.dumps(asked), file=process.stdin, flush=True)
                answer = process.stdout.readline()
                if not answer:
                    raise MeasureError(f"no turn was stopped: {door}")
                if number:
                    samples.append(json.loads(answer))
        process.stdin.close()
    return [_row(door, taken[door], taken["client"]) for door in DOORS]


def _row(door: str, samples: list[dict[str, float]], ours: list[dict[str, float]]) -> Row:
    times = [sample["text"] for sample in samples]
    return Row(
        metric=f"door_stop_ms_{door}",
        value=_median(samples, "text"),
        unit="ms",
        peers={"end of the turn": _median(samples, "end"), "our own client's": _median(ours, "end")},
        limit=Limit("our own client", _median(ours, "text")),
        note=f"median of {len(times)} on the emulator, {min(times):.0f} to {max(times):.0f}",
    )


def _median(samples: list[dict[str, float]], what: str) -> float:
    return round(statistics.median(sample[what] for sample in samples))
