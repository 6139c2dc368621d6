"""Many conversations at once on the local stage, each one turn with a tool round: `python -m bench.load [100]`.

One alone and ten at once come first. Nothing may be lost, repeated or left open: each client has exactly
one end and every event once, the log has each message once and each effect once, and no lane stays open. Otherwise
the exit code is 1. The figures are written to bench/load.json, which `python -m bench load` shows again.
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.load_client import Heard, LoadClient, LostError
from bench.row import Row, render_table, write_results
from stepline.local.command.batches import open_log
from stepline.local.stage.deployed import LocalStage
from stepline.local.stage.lifecycle import mint, stage_status, start_stage
from stepline.model.entry import Closed, Inbound, Opened, Resulted
from stepline.model.ids import make_lane

RESULTS = Path(__file__).with_name("load.json")
TEXT = "Write a file load.md with the word {word} in it and read it back."
TOOLS = ("react.write", "react.read")
SIZES = (1, 10)
"""Loads measured before the largest, for comparison."""
TURN_S = 900
DIALS = 8
"""Connections opened at a time; a gateway accepts 500 new ones a second from a whole account."""
AUDITS = 4
SETTLE_S = 30
POLL_S = 0.5
END_OF_TIME = "9999"
PERCENTILES = {"p50": 0.5, "p95": 0.95, "max": 1.0}


def rows() -> list[Row]:
    """Return the rows of the last load, none before the first."""
    if not RESULTS.exists():
        return []
    kept = json.loads(RESULTS.read_bytes())
    return [Row(**{name: one[name] for name in ("metric", "value", "unit", "note")}) for one in kept]


def main() -> int:
    """Run the loads, print and write their figures; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=100, help="conversations at once")
    size = parser.parse_args().size
    found = stage_status()
    stage = (
        found.stage if found.stage and found.up else start_stage(lambda text: print(text, file=sys.stderr))
    )
    load = Load(stage)
    load.run(1)  # does not count: its functions start cold
    measured: list[Row] = []
    lost: list[str] = []
    for many in sorted({*(one for one in SIZES if one < size), size}):
        records, wrong = load.run(many)
        lost += wrong
        measured += make_rows(many, records)
        print(summarize(many, records, wrong), file=sys.stderr, flush=True)
    write_results(measured, RESULTS)
    print(render_table(measured))
    for one in lost:
        print(f"LOST {one}", file=sys.stderr)
    return 1 if lost else 0


class Load:
    """A stage under load; each client is a new user."""

    def __init__(self, stage: LocalStage) -> None:
        self._stage = stage
        self._log, _ = open_log(stage)
        self._zero_s = time.monotonic()

    def run(self, many: int) -> tuple[list[Heard], list[str]]:
        """Run a turn in each of `many` conversations at once; return the clients' records and the faults found."""
        mark = secrets.token_hex(4)
        clients = [self._client(f"load-{mark}-{at}") for at in range(many)]
        until_s = self._now_s() + TURN_S
        start = threading.Barrier(many)

        def play(one: LoadClient) -> None:
            start.wait()
            one.play(until_s)

        wrong = self._each(DIALS, clients, lambda one: one.dial(until_s))
        if not wrong:
            wrong = self._each(many, clients, play) + self._each(AUDITS, clients, self._audit)
            wrong += self._left_open(clients)
        for one in clients:
            one.close()
        return [one.heard for one in clients], wrong

    def _each(
        self, at_once: int, clients: list[LoadClient], act: Callable[[LoadClient], object]
    ) -> list[str]:
        """Call `act` with each client, `at_once` at a time; return the faults found."""

        def attempt(one: LoadClient) -> str:
            try:
                act(one)
            except LostError as error:
                return f"{one.heard.conversation}: {error}"
            return ""

        with ThreadPoolExecutor(at_once) as pool:
            return [found for found in pool.map(attempt, clients) if found]

    def _client(self, conversation: str) -> LoadClient:
        word = f"w{secrets.token_hex(5)}"
        user = f"u{secrets.token_hex(5)}"
        return LoadClient(
            self._stage.socket_url,
            lambda: mint(self._stage, user),
            conversation,
            TEXT.format(word=word),
            self._now_s,
        )

    def _now_s(self) -> float:
        return time.monotonic() - self._zero_s

    def _audit(self, one: LoadClient) -> None:
        """Compare a client's events with a replay and with its log. Raises LostError."""
        wrong = one.heard.wrong()
        if one.heard.ended_s and one.replay(self._now_s() + TURN_S) != one.heard.batches:
            wrong.append("a replay differs from the events received")
        if wrong := wrong + self._check_log(one.heard):
            raise LostError("; ".join(wrong))

    def _check_log(self, records: Heard) -> list[str]:
        """Return the faults of a conversation's log: its message, its turn and its effects occur once each."""
        lane = make_lane("local", "default", records.conversation)
        entries = [entry for batch in self._log.since(lane, 0, consistent=True) for entry in batch.entries]
        kinds = Counter(type(entry) for entry in entries)
        wrong = [
            f"{kinds[kind]} {kind.__name__}, not one"
            for kind in (Inbound, Opened, Closed)
            if kinds[kind] != 1
        ]
        done = Counter(entry.tool_id for entry in entries if isinstance(entry, Resulted))
        return wrong if done == Counter(TOOLS) else [*wrong, f"the tools ran {dict(done)}"]

    def _left_open(self, clients: list[LoadClient]) -> list[str]:
        """Return the conversations whose lanes are still marked open; the last step removes a mark after the end."""
        ours = {one.heard.conversation for one in clients}
        until_s = self._now_s() + SETTLE_S
        while True:
            marked = self._log.open_lanes(before=END_OF_TIME)
            left = sorted(ours & {one.lane.conversation for one in marked})
            if not left or self._now_s() > until_s:
                return [f"{conversation}: its lane is left open" for conversation in left]
            time.sleep(POLL_S)


def make_rows(many: int, records: list[Heard]) -> list[Row]:
    """Return the rows of a load: first delta and end at some percentiles, from the moment of sending."""
    spans = {
        "first_delta": [one.delta_s - one.sent_s for one in records if one.delta_s],
        "end": [one.ended_s - one.sent_s for one in records if one.ended_s],
    }
    note = f"{many} at once on the emulator, seconds after the message was sent"
    return [
        Row(metric=f"load_{many}_{what}_s_{name}", value=round(quantile(found, part), 2), unit="s", note=note)
        for what, found in spans.items()
        if found
        for name, part in PERCENTILES.items()
    ]


def quantile(values: list[float], part: float) -> float:
    """Return the smallest value that so large a part of them does not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def summarize(many: int, records: list[Heard], wrong: list[str]) -> str:
    """Return a line about the outcome of a load."""
    refused = Counter(code for one in records for code in one.refused)
    again = sum(one.again for one in records)
    resent, redialled = sum(one.resent for one in records), sum(one.dialled - 1 for one in records)
    ends = [one.ended_s - one.sent_s for one in records if one.ended_s]
    median = f"{statistics.median(ends):.1f} s" if ends else "none"
    return (
        f"{many} at once: {len(ends)} ended, half within {median}; {resent} sent again, {redialled} dialled again, "
        f"{again} frames came twice, {sum(bool(one.positions) for one in records)} were queued, "
        f"refused: {dict(refused) or 'none'}; {len(wrong)} wrong"
    )


if __name__ == "__main__":
    sys.exit(main())
