"""Replay of 500 recorded turns of every kind: the CPU time for all, with every request and every decision equal."""

from __future__ import annotations

import logging
import time
from random import Random
from typing import Final

from bench.row import MeasureError, Row
from stepline.replay.load_record import load_record
from stepline.replay.recorded_turn import find_turns
from stepline.replay.replay_turn import replay_turns
from tests.support.conversation import LANE
from tests.support.recorded_talk import replayer, talks

TURNS: Final = 500
GOAL_S: Final = 60.0
SEED: Final = 46


def rows() -> list[Row]:
    """Return `replay_cpu_s_500`. Raises MeasureError if a turn is not equal."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the recorded failures are expected
    try:
        return [_measured()]
    finally:
        logging.disable(level)


def _measured() -> Row:
    drawn, spent_s, left = talks(Random(SEED)), 0.0, TURNS
    while left:
        conversation = next(drawn)
        through, artifacts = replayer(conversation), conversation.ports.artifacts
        batches = load_record(conversation.log, artifacts, LANE)
        turns = find_turns(LANE, batches)[:left]
        left -= len(turns)
        start = time.process_time()
        reports = list(replay_turns(turns, through, artifacts))
        spent_s += time.process_time() - start
        if found := [report.where for report in reports if report.outcome != "equal"]:
            raise MeasureError(f"a turn is not equal: {found[0]}")
    return Row(
        metric="replay_cpu_s_500",
        value=round(spent_s, 2),
        unit="s",
        goal=GOAL_S,
        note="tools, programs, approvals, steers, compactions, journals, files, hooks, failures",
    )
