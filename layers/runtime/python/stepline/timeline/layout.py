"""Layout: the text of one entry, as the model reads it.

Every function returns whole lines, each ended by a line break; what the functions return in log order is the
timeline. A text depends on its own entry and on what stood before it, never on what comes later.
Source: docs/concepts/context.md#what-the-model-reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.model.block import Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import Closed, Decided, Deferred, Inbound, Opened, Resulted
from stepline.timeline.notice import PARENT, notice_paths
from stepline.timeline.quote import INDENT, inline, inline_json, quote, render_params
from stepline.timeline.result import result_path

RULE: Final = "━" * 38
ROUND_TOP: Final = ("┌──────── ROUND ", " ────────┐")
ROUND_BOTTOM: Final = "└────────────────────────┘"

RESULT_PREVIEW_CHARS: Final = 12_000
"""A tool's text beyond this is shown by its beginning; the log keeps it whole."""

UNPREVIEWED: Final = frozenset({"react.read"})
"""Tools that cap what they show themselves."""

SILENT_TYPES: Final = frozenset({"react.plan", "react.plan.ack", "react.state", "react.exit"})
"""Blocks that the model meets in ANNOUNCE or by reading a path, never in the timeline."""

SILENT: Final = "silent"
"""Meta of a single block of which the same is true."""

_LINE: Final = "\n"
_HEADERS: Final = {"followup": "[FOLLOWUP DURING TURN]", "steer": "[STEER DURING TURN]"}
_STATUS: Final = {
    "ok": "ok",
    "error": "error",
    "unverified": "unverified: it may have happened; check before doing it again",
}


def render_opening(entry: Opened) -> str:
    """Render the header of a turn."""
    return f"\n{RULE}\nTURN {entry.turn} (started at {entry.at})\n{RULE}\n"


def render_prompt(event: Inbound, path: str, *, carried: str = "") -> str:
    """Render a message that opened the turn; `carried` is where it stands in the turn before, if it came there."""
    origin = f"[carried over from: {carried}]\n" if carried else ""
    return f"\n[ts: {event.at}]\n[USER MESSAGE]\n[path: {path}]\n{origin}{quote(event.text)}\n"


def render_event(event: Inbound, path: str) -> str:
    """Render an event that came while a turn was open, or between turns."""
    header = _HEADERS.get(event.event, "[EXTERNAL EVENT]")
    return f"\n[ts: {event.at}]\n{header}\n[path: {path}]\n{quote(event.text)}\n"


def render_decision(entry: Decided, turn: str, *, attempt: int, unseen: Sequence[str]) -> str:
    """Render a decision of a turn: an open round if it has actions, else a closed one; and perhaps an answer.

    `attempt` numbers its answer, `unseen` are the paths of events that stand above but were not there when the
    model was asked.
    """
    thinking, notes = entry.thinking, entry.notes
    late = f"[decided before it could read: {', '.join(unseen)}]\n" if unseen else ""
    thought = f"[thinking]\n{quote(_LINE.join(thinking))}\n" if thinking else ""
    said = f"[AI Agent say]: {quote(notes)[len(INDENT) :]}\n" if notes else ""
    calls = "".join([render_call(action, turn) for action in entry.actions])
    if entry.notices:
        told = zip(entry.notices, notice_paths(entry, turn), strict=True)
        calls += "".join([render_notice(one, path=path, accepted=entry.accepted) for one, path in told])
    if entry.interrupted and entry.raw:
        calls += f"[REACT DECISION RAW INTERRUPTED]\n{quote(entry.raw)}\n"
    top = f"\n{ROUND_TOP[0]}{entry.iteration + 1}{ROUND_TOP[1]}\n{late}{thought}{said}{calls}"
    if not entry.accepted:
        return f"{top}{ROUND_BOTTOM}\n"
    path = f"ar:{turn}.assistant.completion.attempt.{attempt}"
    answer = f"\n[ASSISTANT MESSAGE]\n[path: {path}]\n{quote(entry.answer)}\n" if entry.answer else ""
    # Beside an answer actions may run; their results close the frame behind it.
    return f"{top}{answer}" if entry.actions else f"{top}{ROUND_BOTTOM}\n{answer}"


def render_call(action: Action, turn: str) -> str:
    """Render one tool call, its long parameters cut."""
    call, path = action.call_id, f"tc:{turn}.{action.call_id}.call"
    text = f"[TOOL CALL {call}].call {action.tool_id}\n[path: {path}]\nParams: {render_params(action.params, path)}\n"
    if action.code is not None:
        text = f"[AI Agent wrote code] fi:{turn}.code.{call}\n{quote(action.code)}\n{text}"
    return text


def render_notice(notice: Notice, *, path: str, accepted: bool) -> str:
    """Render a correction of the runtime's."""
    dropped = PARENT in notice.extra
    violation = not accepted or dropped or notice.code.startswith("protocol_violation.")
    header = "[PROTOCOL VIOLATION]" if violation else "[REACT NOTICE]"
    extra = f"extra: {inline_json(notice.extra)}\n" if notice.extra else ""
    return (
        f"{header}\n[path: {path}]\ncode: {inline(notice.code)}\nmessage:\n{quote(notice.message)}\n{extra}"
    )


def render_result(entry: Resulted, turn: str, *, last: bool) -> str:
    """Render what an action of a turn did; the round's last result ends its frame."""
    error = f"error: {inline_json(entry.error)}\n" if entry.error else ""
    path = result_path(turn, entry.call_id)
    blocks = "".join(
        [
            render_block(block, block.path or path, entry.tool_id)
            for block in entry.blocks
            if block.type not in SILENT_TYPES and not block.meta.get(SILENT)
        ]
    )
    end = f"{ROUND_BOTTOM}\n" if last else ""
    return f"[TOOL RESULT {entry.call_id}].result {entry.tool_id}\nstatus: {_STATUS[entry.status]}\n{error}{blocks}{end}"


def render_block(block: Produced, path: str, tool_id: str) -> str:
    """Render one block of a result: its path and its text, or what there is to read at the path."""
    if block.type == "react.notice":
        return f"[REACT NOTICE]\n[path: {path}]\n{quote(block.text)}\n"
    body = block.body
    if body is not None:
        return (
            f"logical_path: {path}\nmime: {body.mime}\nsize_bytes: {body.size_bytes}\n"
            "content: stored, not shown here; react.read shows it\n"
        )
    if len(block.text) > RESULT_PREVIEW_CHARS and tool_id not in UNPREVIEWED:
        return _preview(block.text, path)
    return f"logical_path: {path}\n{quote(block.text)}\n"


def _preview(text: str, path: str) -> str:
    return (
        f"logical_path: {path}\n[TOOL RESULT PREVIEW TRUNCATED]\nfull_text_chars: {len(text)}\n"
        f"visible_preview_chars: {RESULT_PREVIEW_CHARS}\n{quote(text[:RESULT_PREVIEW_CHARS])}\n"
        "...[truncated]: react.read shows the rest by its logical_path\n"
    )


def render_deferral(entry: Deferred, *, attempt: int, unseen: Sequence[str]) -> str:
    """Render why the answer above was not the turn's last word."""
    path = f"ar:{entry.turn}.assistant.completion.attempt.{attempt}.outcome"
    waiting = f"waiting: {', '.join(unseen)}\n" if unseen else ""
    return (
        f"\n[ASSISTANT MESSAGE ATTEMPT OUTCOME]\n[path: {path}]\n"
        "The user has this message. The turn goes on, because of events that came before it was finished:\n"
        f"{waiting}"
    )


def render_takeover() -> str:
    """Render that the turn goes on after an interruption."""
    return (
        "\n[SYSTEM MESSAGE]\nThe turn was interrupted and goes on from here; everything above is settled.\n"
    )


def render_closing(entry: Closed, *, answer: str, frame: bool) -> str:
    """Render the end of a turn; `answer` is the newest one above, `frame` says whether a round is still open."""
    text = f"{ROUND_BOTTOM}\n" if frame else ""
    path = f"ar:{entry.turn}.assistant.completion"
    if entry.answer and entry.answer != answer:
        text += f"\n[ASSISTANT MESSAGE]\n[path: {path}]\n{quote(entry.answer)}\n"
    if entry.outcome == "error":
        return f"{text}\n[TURN ENDED] error: {inline(entry.code)}\n"
    return f"{text}\n[TURN ENDED] {inline(entry.reason)}; answer: {path}\n"
