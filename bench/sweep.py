"""A sweep of a thousand turns without an owner, beside a thousand that are running: the time that the quotas of AWS impose.

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


def rows() -> list[Row]:
    """Return `sweep_s_1000_turns`."""
    conversation, machine = opened(2 * TURNS, SMALL_REGION)
    strand(machine, range(TURNS))
    logging.getLogger("stepline.loop.sweep").setLevel(
        logging.ERROR
    )  # each turn that is taken over logs a warning
    began_s = conversation.clock.monotonic_s()
    swept = sweep(conversation.ports)
    took_s = conversation.clock.monotonic_s() - began_s
    if swept != {"alive": TURNS, "taken_over": TURNS}:
        raise MeasureError(f"a sweep left turns over: {swept}")
    quota = SMALL_REGION["status"]
    asked = ", ".join(f"{count:,} {name}" for name, count in sorted(machine.asked.items()))
    return [
        Row(
            metric="sweep_s_1000_turns",
            value=round(took_s, 1),
            unit="s",
            limit=Limit("the whole quota", (TURNS - quota.burst) / quota.per_s),
            goal=SWEEP_S,
            note=f"in memory, by the quotas of a smaller region, beside {TURNS:,} running turns; requests: {asked}; none refused",
        )
    ]
