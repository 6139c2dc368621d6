"""The session log: a line for each event of the open turn, of a time, an area, a message and data; lines are only added.

Source: docs/concepts/journal.md#the-session-log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepline.context.journal.turn_course import Course
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Contributed,
    Decided,
    Deferred,
    Entry,
    Feedback,
    Inbound,
    Resulted,
    Steered,
    TakenOver,
    Titled,
)
from stepline.rendering.piece import byte_length
from stepline.rendering.quote import clip

HEADER: Final = "[SESSION LOG (recent events)] oldest -> newest, append-only\n"
MESSAGE_CHARS: Final = 240
DATA_CHARS: Final = 120
IDS_SHOWN: Final = 8


def render_log(course: Course, most_bytes: int) -> str:
    """Return the log of the turn; the oldest lines are counted where it would be longer than `most_bytes`."""
    lines = [
        _line(entry.at, "user", f"{entry.event} {place.path}", entry.text) for entry, place in course.prompts
    ]
    lines += [
        _line(event.at, "user", f"{event.event} {place.path}", event.text) for event, place in course.waited
    ]
    for _, at, entry in course.rows:
        lines += _lines(at, entry)
    size, left_out = sum(map(byte_length, lines)), 0
    while size > most_bytes and left_out < len(lines):
        size -= byte_length(lines[left_out])
        left_out += 1
    counted = f"- … {left_out} earlier ones\n" if left_out else ""
    return "".join([HEADER, counted, *lines[left_out:]])


def _line(at: str, area: str, message: str, data: str = "") -> str:
    told = clip(data, DATA_CHARS)
    return f"- {at} [{area}] {clip(message, MESSAGE_CHARS)}{f' | {told}' if told else ''}\n"


def _lines(at: str, entry: Entry) -> Iterator[str]:  # noqa: C901 - one branch a kind of entry
    match entry:
        case Inbound():
            yield _line(entry.at, "user", f"{entry.event} {entry.message_id}", entry.text)
        case Titled():
            yield _line(entry.at, "user.prompt.summary", "titled", entry.title)
        case Decided():
            yield from _decision(at, entry)
        case Resulted():
            code = str((entry.error or {}).get("code", ""))
            rows = [f"{len(entry.sources)} sources"] if entry.sources else []
            data = "; ".join([*([code] if code else []), *rows])
            yield _line(entry.at, "react", f"{entry.tool_id} {entry.call_id}: {entry.status}", data)
        case Deferred():
            yield _line(at, "solver", "the answer was not the last word: events had arrived")
        case Steered():
            yield _line(entry.at, "solver", f"steered, {entry.finalize} rounds left", entry.text)
        case TakenOver():
            yield _line(at, "solver", "the turn was taken over")
        case ApprovalRequested():
            yield _line(
                entry.at, "solver", f"approval asked for {entry.action.call_id}", entry.action.tool_id
            )
        case ApprovalAnswered():
            yield _line(entry.at, "user", f"{entry.verdict} {entry.call_id}", entry.text)
        case Feedback():
            yield _line(entry.at, "feedback", f"{entry.origin} on {entry.turn}: {entry.word}", entry.text)
        case Contributed():
            yield _line(entry.at, "solver", f"the bundle added {len(entry.blocks)} blocks", entry.code)
        case _:
            pass


def _decision(at: str, entry: Decided) -> Iterator[str]:
    calls = ", ".join(f"{action.tool_id} {action.call_id}" for action in entry.actions[:IDS_SHOWN])
    word = entry.action if entry.accepted else "refused" if not entry.interrupted else "cut off"
    yield _line(at, "react", f"round {entry.iteration + 1}: {word}", calls)
    for notice in entry.notices:
        yield _line(at, "react", "notice", notice.code)
    if staged := (*entry.show_artifacts, *(f"sk:{skill}" for skill in entry.show_skills)):
        yield _line(at, "react", "stages for the next round", ", ".join(staged[:IDS_SHOWN]))
