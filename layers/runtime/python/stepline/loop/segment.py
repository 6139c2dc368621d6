"""Segments: put by Decide when the log behind the last one is long, read by whoever remembers nothing.

    seg/<lane>/<batch>-v<format>    what the fold of the log up to that batch gives; put once, never changed

The object is put before the batch that names it, and stays true whatever becomes of that batch. Nothing but time and
money hangs on it: what cannot be put is not named, and what cannot be read is folded from the log.
Source: docs/concepts/log.md#segments.
"""

from __future__ import annotations

import logging
from typing import Final

from stepline.errors import SteplineError
from stepline.loop.port import Policy, Ports
from stepline.metrics import SEGMENTS_SEALED, SEGMENTS_UNREAD, SEGMENTS_UNSEALED
from stepline.model.batch import encode_batch
from stepline.model.ids import Lane
from stepline.rendering.layout import Layout
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import FORMAT, decode_segment, encode_segment

logger = logging.getLogger(__name__)

MIME: Final = "application/msgpack"


def segment_key(lane: Lane, n: int) -> str:
    """Return the key of the segment up to batch n."""
    return f"seg/{lane.prefix()}/{n:012d}-v{FORMAT}"


def seal(ports: Ports, lane: Lane, timeline: Timeline) -> int:
    """Put a segment if what stands behind the last one is long; return the newest batch that a segment holds."""
    named = timeline.state.segment
    if not _is_long(timeline, ports.policy):
        return named
    body = encode_segment(timeline)
    try:
        ports.artifacts.put(segment_key(lane, timeline.n), body, mime=MIME)
    except SteplineError:
        logger.exception("segment not put", extra={"n": timeline.n, "size_bytes": len(body)})
        ports.meter.count(SEGMENTS_UNSEALED)
        return named
    logger.info("segment put", extra={"n": timeline.n, "size_bytes": len(body)})
    ports.meter.count(SEGMENTS_SEALED)
    return timeline.n


def open_segment(ports: Ports, lane: Lane, n: int, layout: Layout) -> Timeline | None:
    """Return the timeline up to batch n; None if its segment is gone or not to be read here, which is logged."""
    try:
        found = decode_segment(ports.artifacts.get(segment_key(lane, n)), lane, layout)
    except SteplineError:
        logger.exception("segment not read", extra={"n": n})
        found = None
    if found is None:
        logger.warning("log read from its beginning", extra={"n": n})
        ports.meter.count(SEGMENTS_UNREAD)
    return found


def _is_long(timeline: Timeline, policy: Policy) -> bool:
    """Tell whether a reader without memory has more to read behind the segment than is good."""
    if timeline.n - timeline.base >= policy.seal_batches:
        return True
    left = policy.seal_bytes
    for batch in timeline.batches:
        left -= len(encode_batch(batch))
        if left <= 0:
            return True
    return False
