"""Cache busts: a request that came while a cache of the one before could live, and was read for less than it left there.

Source: docs/concepts/context.md#busts.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import lru_cache
from typing import Final

from stepline.context.rules import ContextRules
from stepline.model.ids import utc
from stepline.model.usage import Bust, BustReason, Usage
from stepline.timeline.fold import Timeline

LIFE_S: Final = 300.0
"""So long after its last use a provider keeps what a mark wrote."""
SHARE: Final = 0.9
"""What a request reads less of than this share of what it could is a bust."""
DIGEST_CHARS: Final = 8


def find_bust(
    timeline: Timeline, usage: Usage | None, *, system: str, model: str, now: datetime, rules: ContextRules
) -> Bust | None:
    """Return what a request missed of the cache that the newest recorded request left, and why; None if nothing.

    `timeline` is what was sent at `now`, `system` the digest of its system part; `usage` is what the provider
    counted, and `model` who answered. Where nobody counted, nothing is known.
    """
    asked = timeline.asked
    counted = usage is not None and not usage.estimated
    if not counted or usage is None or not asked.at:
        return None
    cold = asked.idle_s(utc(now)) >= LIFE_S - rules.ttl_buffer_s
    if cold or asked.cached < max(1, rules.cache_minimum_tokens):
        return None
    if usage.cache_read_tokens >= SHARE * asked.cached:
        return None
    return Bust(
        reason=_reason(timeline, system, model),
        expected_tokens=asked.cached,
        read_tokens=usage.cache_read_tokens,
    )


def _reason(timeline: Timeline, system: str, model: str) -> BustReason:
    asked = timeline.asked
    if system != asked.system:
        return "system"
    if model != asked.model:
        return "model"
    return timeline.parts.rewritten or "provider"


@lru_cache(maxsize=8)
def digest_system(text: str) -> str:
    """Return what tells one system part from another: the beginning of its SHA-256, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]
