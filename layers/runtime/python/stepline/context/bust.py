"""Cache busts: a request read less from the live cache than the previous request left there.

Source: docs/concepts/context.md#busts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from stepline.context.rules import ContextRules
from stepline.model.ids import utc
from stepline.model.usage import Bust, BustReason, Usage
from stepline.model.version import TIMELINE, Layout
from stepline.timeline.fold import Timeline

SHARE: Final = 0.9
"""Reading less than this share of the cached tokens is a bust."""


def find_bust(
    timeline: Timeline,
    usage: Usage | None,
    *,
    system: str,
    model: str,
    now: datetime,
    rules: ContextRules,
    layout: Layout = TIMELINE,
) -> Bust | None:
    """Return how much of the newest recorded request's cache a request missed, and why; None if it missed nothing.

    `timeline` is the one sent at `now` in a `layout`, `system` the digest of its system part; `usage` is the provider's
    count, and `model` the model that answered. Without a count the result is None.
    """
    asked = timeline.asked
    counted = usage is not None and not usage.estimated
    if not counted or usage is None or not asked.at:
        return None
    cold = asked.idle_s(utc(now)) >= asked.lives_s - rules.ttl_buffer_s
    if cold or asked.cached < max(1, rules.cache_minimum_tokens):
        return None
    if usage.cache_read_tokens >= SHARE * asked.cached:
        return None
    return Bust(
        reason=_reason(timeline, system, model, layout),
        expected_tokens=asked.cached,
        read_tokens=usage.cache_read_tokens,
    )


def _reason(timeline: Timeline, system: str, model: str, layout: Layout) -> BustReason:
    asked = timeline.asked
    if system != asked.system:
        return "tools" if timeline.relisted else "system"
    if model != asked.model:
        return "model"
    # A reduction loses nothing if the cache holds no part of the timeline.
    return (timeline.parts.rewritten if layout.shows_timeline else "") or "provider"
