"""A sweep of a thousand turns without an owner, beside a thousand that are running: the time that the quotas of AWS impose.

Once they are of plain conversations; once half of them are of forks, and 500 turns more wait for a slot.

The log and the machine are those in memory, the machine with the quotas of a smaller region; the clock moves only by the
waits within them, so the time is that of the quotas alone.
"""

from __future__ import annotations

import logging
from typing import Final

from bench.row import Limit, MeasureError, Row
from stepline.loop.sweep import SWEEP_S, sweep
from tests.support.stranded_turns import SMALL_REGION, opened, strand

TURNS: Final = 1_000
QUEUED: Final = 500


def rows() -> list[Row]:
    """Return `sweep_s_1000_turns`, plain and with forks and a queue."""
    logging.getLogger("stepline.loop.sweep").setLevel(
        logging.ERROR
    )  # each turn that is taken over logs a warning
    return [
        _measure("sweep_s_1000_turns", f"beside {TURNS:,} running turns"),
        _measure(
            "sweep_s_1000_turns_forks_queue",
            f"half of them of forks, beside {TURNS:,} running turns and {QUEUED} in the queue",
            forks=TURNS // 2,
            queued=QUEUED,
        ),
    ]


def _measure(metric: str, beside: str, **stage: int) -> Row:
    conversation, machine = opened(2 * TURNS, SMALL_REGION, **stage)
    strand(machine, range(TURNS))
    began_s = conversation.clock.monotonic_s()
    swept = sweep(conversation.ports)
    took_s = conversation.clock.monotonic_s() - began_s
    expected = {"alive": TURNS, "taken_over": TURNS, "queued": stage.get("queued", 0)}
    if swept != {name: count for name, count in expected.items() if count}:
        raise MeasureError(f"a sweep left turns over: {swept}")
    quota = SMALL_REGION["status"]
    asked = ", ".join(f"{count:,} {name}" for name, count in sorted(machine.asked.items()))
    return Row(
        metric=metric,
        value=round(took_s, 1),
        unit="s",
        limit=Limit("the whole quota", (TURNS - quota.burst) / quota.per_s),
        goal=SWEEP_S,
        note=f"in memory, by the quotas of a smaller region, {beside}; requests: {asked}; none refused",
    )
