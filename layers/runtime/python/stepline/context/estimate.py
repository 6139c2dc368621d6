"""Token estimates without a tokenizer: the provider's last count, plus the bytes since.

A conversation calibrates itself. The ratio of the provider's last count to the tokens expected from its bytes
gives the tokens per byte of this language and model.
Source: docs/concepts/context.md#estimates.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from stepline.model.base import Value
from stepline.model.usage import BYTES_PER_TOKEN
from stepline.timeline.fold import Timeline

MARGIN: Final = 1.1
"""Safety factor for bytes that no provider has counted yet."""
BESIDE_BYTES: Final = 32_000
"""More bytes than the parts after the timeline ever have."""
SURELY: Final = 0.9
"""Below this share of the budget, no exact estimate is made."""
RATIO_MIN: Final = 0.5
RATIO_MAX: Final = 2.5
"""Bounds of the calibration: a count beyond them reflects the provider rather than the text."""


class Gauge(Value):
    """Conversion of one conversation's bytes into tokens. `overhead_bytes` are those outside its timeline."""

    tokens_per_byte: float
    overhead_bytes: int = 0

    def tokens(self, size: int) -> int:
        """Return the tokens of a request whose timeline has `size` bytes."""
        return ceil((size + self.overhead_bytes) * self.tokens_per_byte)

    def room(self, tokens: int) -> int:
        """Return the maximum bytes of the timeline for a request of `tokens`."""
        return max(0, int(tokens / self.tokens_per_byte) - self.overhead_bytes)


def estimate_request(timeline: Timeline, overhead_bytes: int) -> int:
    """Return the estimated tokens of the next request.

    `overhead_bytes` are the bytes of its system part and of the parts after the timeline, with pictures and documents
    as `weigh` counts them. An earlier request without a recorded overhead is assumed to have had the same.
    """
    asked, grown = timeline.asked, timeline.parts.size - timeline.asked.size
    if not asked.tokens or timeline.parts.rewritten or grown < 0:
        return gauge(timeline, overhead_bytes).tokens(timeline.parts.size)
    ratio = max(1.0, calibration(timeline, overhead_bytes))
    added = grown + overhead_bytes - (asked.overhead_bytes or overhead_bytes)
    return asked.tokens + ceil(max(0, added) / BYTES_PER_TOKEN * ratio * MARGIN)


def surely_fits(timeline: Timeline, fixed_bytes: int, budget: int) -> bool:
    """Return True if a request fits without an exact estimate: most rounds are far below their budget.

    `fixed_bytes` are the bytes of its system part, and those that its pictures and documents cost.
    """
    most = fixed_bytes + BESIDE_BYTES
    return budget * SURELY >= max(estimate_request(timeline, bytes_) for bytes_ in (fixed_bytes, most))


def gauge(timeline: Timeline, overhead_bytes: int) -> Gauge:
    """Return the gauge of this conversation, for bytes that no provider has counted in this form."""
    per_byte = calibration(timeline, overhead_bytes) * MARGIN / BYTES_PER_TOKEN
    return Gauge(tokens_per_byte=per_byte, overhead_bytes=overhead_bytes)


def calibration(timeline: Timeline, overhead_bytes: int) -> float:
    """Return the ratio of the provider's last count to the expected tokens; 1 if unknown."""
    asked = timeline.asked
    expected = (asked.size + (asked.overhead_bytes or overhead_bytes)) / BYTES_PER_TOKEN
    if not asked.tokens or expected <= 0:
        return 1.0
    return min(RATIO_MAX, max(RATIO_MIN, asked.tokens / expected))
