"""The write units of a minute of text through the relay. Time is simulated, the relay is the real one."""

from __future__ import annotations

from bench.budget import BUDGETS
from bench.paced import TOKENS_A_SECOND, stream_for
from bench.row import Row

SECONDS = 60


def rows() -> list[Row]:
    """Return `wru_per_stream_minute`."""
    posts, puts, units = stream_for(SECONDS)
    note = f"{TOKENS_A_SECOND} tokens/s in one lane, simulated clock: {puts} rows stored, {posts} posts to one client"
    goal = BUDGETS["wru_per_stream_minute"].aim
    return [Row(metric="wru_per_stream_minute", value=units, unit="WRU", goal=goal, note=note)]
