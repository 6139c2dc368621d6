"""A cache that was read for less than it holds, and what we know of why."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepline.model.base import Value

BustReason: TypeAlias = Literal["system", "model", "hide", "prune", "compaction", "feedback", "provider"]


class Bust(Value):
    """A warm request read fewer tokens from the cache than the one before left there. `provider`: no doing of ours."""

    reason: BustReason
    expected_tokens: int
    read_tokens: int
