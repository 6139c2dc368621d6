"""The standard layout of what came from outside: messages, steers, forms, alerts, and what the runtime did about a steer.

Who sent an event, its kind, its files and its payload are lines of structure; its text is data. A header that names the user
stands for the user's client, unless the line `sent_by` says that a service sent the event; an external event always has
that line. Whatever is too long is cut, and the event's path leads to all of it.
Source: docs/concepts/context.md#what-the-model-reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.model.entry import Inbound, Steered
from stepline.model.wire.live_event import FOLLOWUP, PROMPT, STEER
from stepline.timeline.render.excerpt import is_short, render_text
from stepline.timeline.render.param import render_params
from stepline.timeline.render.quote import clip, label
from stepline.timeline.turn import steer_path

SOURCE_CHARS: Final = 120
MIME_CHARS: Final = 100

_HEADERS: Final = {FOLLOWUP: "[FOLLOWUP DURING TURN]", STEER: "[STEER DURING TURN]"}
_CUT_SHORT: Final = {
    "": "",
    "decision": " The decision you were writing was cut off, and nothing of it counts.",
    "tools": " The calls above that say so were not run.",
}
_STOPPED_SHORT: Final = {
    **_CUT_SHORT,
    "decision": " Of the decision you were writing only what they had seen of an answer counts.",
}


def render_prompt(event: Inbound, path: str, carried: str = "", files: Sequence[str] = ()) -> str:
    """Render an event that opened the turn; `carried` is where it stands in the turn before, if it came there."""
    header = "[USER MESSAGE]" if event.event in (PROMPT, FOLLOWUP) else _external(event)
    origin = f"[carried over from: {carried}]\n" if carried else ""
    return f"\n[ts: {event.at}]\n{header}\n[path: {path}]\n{origin}{_said(event, files, 'USER MESSAGE')}"


def render_event(event: Inbound, path: str, files: Sequence[str] = ()) -> str:
    """Render an event that came while a turn was open, or between turns; `files` are the paths of what came with it."""
    header = _HEADERS.get(event.event) or _external(event)
    return f"\n[ts: {event.at}]\n{header}\n[path: {path}]\n{_said(event, files, 'EVENT')}"


def render_steered(entry: Steered) -> str:
    """Render that a steer was heeded: what it cut short, and what is left of the turn."""
    asked = "steered" if entry.finalize else "said stop"
    rounds = "1 round" if entry.finalize == 1 else f"{entry.finalize} rounds"
    left = (
        f" Unless a later message lets the turn go on, it has {rounds} left: do what the steer says as far as they "
        "allow, and answer."
        if entry.finalize
        else " The turn ends here."
    )
    cut = (_CUT_SHORT if entry.finalize else _STOPPED_SHORT)[entry.phase]
    return f"\n[SYSTEM MESSAGE]\nThe user {asked} ({steer_path(entry)}).{cut}{left}\n"


def shows_event(event: Inbound) -> bool:
    """Tell whether all that an event says is shown."""
    return is_short(event.text) and (not event.payload or render_params(event.payload)[1])


def _external(event: Inbound) -> str:
    return f"[EXTERNAL EVENT: {event.event}]"


def _sender(event: Inbound) -> str:
    """Say who sent an event, where its header does not."""
    if event.source:
        return f"sent_by: service {label(clip(event.source, SOURCE_CHARS))}"
    return "" if event.event in (PROMPT, *_HEADERS) else "sent_by: user"


def _said(event: Inbound, files: Sequence[str], what: str) -> str:
    """Return everything below an event's path: the facts a line each, and its text."""
    reactive = event.reactive or event.event in _HEADERS
    facts = [
        "" if reactive else "reactive: no",
        _sender(event),
        *(
            f"[USER ATTACHMENT] {path.rpartition('/')[2]} | {clip(file.mime, MIME_CHARS)} | {file.size_bytes} bytes | {path}"
            for file, path in zip(event.attachments, files, strict=True)
        ),
        f"payload: {render_params(event.payload)[0]}" if event.payload else "",
    ]
    return "".join(f"{fact}\n" for fact in facts if fact) + (
        render_text(event.text, what) if event.text else ""
    )
