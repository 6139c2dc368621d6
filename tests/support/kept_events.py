"""The events of an open turn that a request shows, and those that it lacks."""

from __future__ import annotations

from typing import Final

from stepline.context.journal.turn_course import Course
from stepline.rendering.quote import quote
from stepline.timeline.fold import Timeline

BEGINNING_CHARS: Final = 30


def lost_events(timeline: Timeline, text: str) -> list[str]:
    """Return the paths of the open turn's messages and events that a request lacks: the path, or the beginning of the text.

    An event that the model hid has its path only.
    """
    turn = timeline.current
    if turn is None:
        return []
    prompts = Course(timeline=timeline, turn=turn).prompts
    events = [
        *((event.text, place.path) for event, place in prompts),
        *((event.inbound.text, event.path) for event in timeline.arrived.values()),
    ]
    return [path for said, path in events if not _is_shown(text, said, path)]


def _is_shown(text: str, said: str, path: str) -> bool:
    first = quote(said).split("\n")[0][:BEGINNING_CHARS] if said else ""
    after = [place.split("\n[path: ")[0] for place in text.split(f"[path: {path}]\n")[1:]]
    return any(first in place for place in after) or f"shows it again\n[path: {path}]" in text
