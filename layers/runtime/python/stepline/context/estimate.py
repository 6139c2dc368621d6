"""How many tokens a request has, told without a tokenizer: what the provider counted last, and the bytes since.

A conversation calibrates itself. What the provider counted for the request before, over what its bytes let expect,
says what a byte of this language comes to in this model's tokens.
Source: docs/concepts/context.md#estimates.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from stepline.model.base import Value
from stepline.model.usage import BYTES_PER_TOKEN
from stepline.timeline.fold import Timeline

MARGIN: Final = 1.1
"""On top of every byte that no provider has counted yet."""
BESIDE_BYTES: Final = 32_000
"""More than what stands behind the timeline ever has."""
SURELY: Final = 0.9
"""Below this share of the budget nothing is weighed exactly."""
RATIO_MIN: Final = 0.5
RATIO_MAX: Final = 2.5
"""Bounds of the calibration: a count beyond them says more of the provider than of the text."""


class Gauge(Value):
    """What bytes of one conversation come to. `overhead_bytes` are those of a request beside its timeline."""

    tokens_per_byte: float
    overhead_bytes: int = 0

    def tokens(self, size: int) -> int:
        """Return the tokens of a request whose timeline has `size` bytes."""
        return ceil((size + self.overhead_bytes) * self.tokens_per_byte)

    def room(self, tokens: int) -> int:
        """Return the bytes that the timeline of a request may have, so that the request has so many tokens at most."""
        return max(0, int(tokens / self.tokens_per_byte) - self.overhead_bytes)


def estimate_request(timeline: Timeline, overhead_bytes: int) -> int:
    """Return the tokens of the request that would be sent now.

    `overhead_bytes` are those of its system part and of what stands behind the timeline. A request before that did
    not record its own is taken to have had as many.
    """
    asked, grown = timeline.asked, timeline.parts.size - timeline.asked.size
    if not asked.tokens or timeline.parts.rewritten or grown < 0:
        return gauge(timeline, overhead_bytes).tokens(timeline.parts.size)
    ratio = max(1.0, calibration(timeline, overhead_bytes))
    added = grown + overhead_bytes - (asked.overhead_bytes or overhead_bytes)
    return asked.tokens + ceil(max(0, added) / BYTES_PER_TOKEN * ratio * MARGIN)


def surely_fits(timeline: Timeline, system_bytes: int, budget: int) -> bool:
    """Tell whether a request fits, without making one: most rounds are far below their budget."""
    most = system_bytes + BESIDE_BYTES
    return budget * SURELY >= max(estimate_request(timeline, bytes_) for bytes_ in (system_bytes, most))


def gauge(timeline: Timeline, overhead_bytes: int) -> Gauge:
    """Return how the bytes of this conversation are to be counted, where none of them was counted as it stands."""
    per_byte = calibration(timeline, overhead_bytes) * MARGIN / BYTES_PER_TOKEN
    return Gauge(tokens_per_byte=per_byte, overhead_bytes=overhead_bytes)


def calibration(timeline: Timeline, overhead_bytes: int) -> float:
    """Return the tokens that the provider counted for the request before, over what its bytes let expect; 1 if unknown."""
    asked = timeline.asked
    expected = (asked.size + (asked.overhead_bytes or overhead_bytes)) / BYTES_PER_TOKEN
    if not asked.tokens or expected <= 0:
        return 1.0
    return min(RATIO_MAX, max(RATIO_MIN, asked.tokens / expected))
