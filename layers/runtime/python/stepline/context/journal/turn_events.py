"""The events of the open turn: what was decided, what came of it, and what arrived, in the order of the log.

The texts are those of the timeline, without the contents of results: these are artifacts.
Source: docs/concepts/journal.md#the-current-turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepline.context.journal.turn_course import Course, Detail
from stepline.model.block import Produced
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Contributed,
    Decided,
    Deferred,
    Entry,
    Inbound,
    Resulted,
    Steered,
    TakenOver,
)
from stepline.model.ids import call_id
from stepline.rendering.pieces_of_entry import NOTE_TYPES, is_shown, shown_blocks
from stepline.rendering.quote import clip, inline
from stepline.rendering.render_entry import (
    render_call,
    render_edited,
    render_end,
    render_event,
    render_notice,
    render_outcome,
    render_round,
    render_status,
    render_steered,
    render_takeover,
)
from stepline.rendering.result import notice_paths, result_path
from stepline.rendering.turn_facts import event_place

STAGED: Final = "[STAGED] the next round shows: "
STAGED_SHOWN: Final = 20


def render_course(course: Course, detail: Detail) -> str:
    """Return the events of the turn, the newest of them if there are too many; "" for none."""
    texts = [render_event(event, place.path, place.files) for event, place in course.waited]
    attempts = left = 0
    for _, _, entry in course.rows:
        if isinstance(entry, Decided):
            attempts += entry.accepted and bool(entry.answer)
            left = len(entry.actions) if entry.accepted else 0
        if text := "".join(_entry(course, entry, detail, attempts)):
            texts.append(text)
        if isinstance(entry, Resulted):
            left -= 1
            texts[-1] += "" if left else render_end()
    return detail.rows_of([detail.fit(text) for text in texts])


def _entry(course: Course, entry: Entry, detail: Detail, attempts: int) -> Iterator[str]:
    turn = course.turn.id
    match entry:
        case Inbound():
            place = event_place(turn, entry)
            yield render_event(entry, place.path, place.files)
        case Decided():
            yield from _decision(turn, entry, detail, attempts)
        case Resulted():
            yield from _result(turn, entry, detail)
        case Deferred():
            yield render_outcome(entry, f"ar:{turn}.assistant.completion.attempt.{attempts}.outcome", ())
        case Steered():
            yield render_steered(entry)
        case TakenOver():
            yield render_takeover()
        case ApprovalAnswered() if entry.action is not None:
            yield render_edited(entry.call_id, entry.action, turn)
        case ApprovalRequested():
            yield f"[APPROVAL ASKED] {entry.action.call_id} {inline(entry.action.tool_id)}\n"
        case Contributed():
            yield from (_contributed(block, detail) for block in entry.blocks if _tells(block))
        case _:
            pass


def _tells(block: Produced) -> bool:
    return is_shown(block) and block.type not in NOTE_TYPES


def _contributed(block: Produced, detail: Detail) -> str:
    """Return a text of the bundle's code below its path, or the path of what it stored."""
    head = f"[STAGE] {clip(block.type, detail.chars)}\n"
    where = f"[path: {clip(block.path, detail.chars)}]\n" if block.path else ""
    return f"{head}{where}{detail.text(block.text, 'BLOCK') if block.text else ''}"


def _decision(turn: str, entry: Decided, detail: Detail, attempts: int) -> Iterator[str]:
    yield render_round(entry, ())
    first = entry.actions[0].call_id if entry.actions else call_id(turn, entry.iteration, 0)
    if entry.thinking and not entry.interrupted:
        yield f"[thinking] ar:{turn}.react.thinking.{entry.iteration}\n{detail.text(chr(10).join(entry.thinking), 'THINKING')}"
    if entry.notes:
        yield f"[AI Agent say]: ar:{turn}.react.notes.{first}\n{detail.text(entry.notes, 'NOTES')}"
    for action in entry.actions:
        if action.code is not None:
            yield f"[AI Agent wrote code] fi:{turn}.code.{action.call_id}\n{detail.text(action.code, 'CODE')}"
        yield render_call(action, turn)
    if staged := (*entry.show_artifacts, *(f"sk:{skill}" for skill in entry.show_skills)):
        yield f"{STAGED}{', '.join(clip(path, detail.chars) for path in staged[:STAGED_SHOWN])}\n"
    for notice, path in zip(entry.notices, notice_paths(entry, turn), strict=True):
        yield render_notice(notice, path, entry.accepted)
    if entry.interrupted and entry.raw:
        path = f"ar:{turn}.react.decision.raw.interrupted.{entry.iteration}"
        yield f"[REACT DECISION RAW INTERRUPTED] {path}\n{detail.text(entry.raw, 'RAW')}"
    if not (entry.accepted and entry.actions):
        yield render_end()
    if entry.accepted and entry.answer:
        path = f"ar:{turn}.assistant.completion.attempt.{attempts}"
        yield f"\n[ASSISTANT MESSAGE]\n[path: {path}]\n{detail.text(entry.answer, 'ASSISTANT MESSAGE')}"


def _result(turn: str, entry: Resulted, detail: Detail) -> Iterator[str]:
    """Yield the status of a call, the paths of its artifacts, and its notices."""
    yield render_status(entry)
    own = result_path(turn, entry.call_id)
    for block in shown_blocks(entry):
        path = clip(str(block.meta.get("source_path") or block.path or own), detail.chars)
        if block.type == "react.notice":
            yield f"[REACT NOTICE]\n[path: {path}]\n{detail.text(block.text, 'NOTICE')}"
        else:
            yield f"artifact: {path}\n"
