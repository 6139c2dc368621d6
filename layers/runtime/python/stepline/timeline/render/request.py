"""The model's request: system, timeline, announce, with cache marks where they pay.

The parts of a request that end at a mark stand at the beginning of the next request too, byte for byte and part
for part, because a provider caches whole prefixes of parts. The last request's tail is always marked again, so
a cache finds it without looking back. What changes every round stands behind the last mark.
Source: docs/concepts/context.md#marks.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.ports.model import Part
from stepline.timeline.fold import Timeline

MARKS_MAX: Final = 4
"""What providers allow: one for the system part, three for the timeline."""


class Rendered(Value):
    """What one request consists of."""

    system: tuple[Part, ...]
    content: tuple[Part, ...]


def render(timeline: Timeline, *, system: str, announce: str = "", sources: str = "") -> Rendered:
    """Return the parts of a request; `sources` and `announce` are sent without a mark, and not at all if empty."""
    volatile = (Part(text=text) for text in (sources, announce) if text)
    return Rendered(
        system=(Part(text=system, cache=True),),
        content=(*render_timeline(timeline), *volatile),
    )


def render_timeline(timeline: Timeline) -> tuple[Part, ...]:
    """Return the timeline's parts, with marks behind the turn before, the request before, and the end."""
    sealed, fused = timeline.sealed, timeline.fused
    parts = list(sealed[fused:])
    if fused:
        parts.insert(0, Part(text="".join([part.text for part in sealed[:fused]])))
    start = timeline.ends[-1] if timeline.ends else 0
    if loose := "".join([piece.text for piece in timeline.pieces[start:]]):
        parts.append(Part(text=loose))
    offset = fused - 1 if fused else 0
    ends = {timeline.turn_part - offset, timeline.seen_part - offset, len(parts)}
    for end in ends:
        if 0 < end <= len(parts):
            parts[end - 1] = replace(parts[end - 1], cache=True)
    return tuple(parts)
