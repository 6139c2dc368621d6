"""The standard layout of entries and blocks: what happened, as the model reads it.

Every function returns whole lines, each ended by a line break; what the functions return in log order is the
timeline. A text depends on its own entry and on what stood before it, never on what comes later.
Source: docs/concepts/context.md#what-the-model-reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.model.block import Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import Closed, Decided, Deferred, Feedback, Inbound, Opened, Resulted
from stepline.model.plan import Plan
from stepline.timeline.notice import PARENT
from stepline.timeline.render.quote import INDENT, inline, inline_json, quote, render_params

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

_HEADERS: Final = {"followup": "[FOLLOWUP DURING TURN]", "steer": "[STEER DURING TURN]"}
_STATUS: Final = {
    "ok": "ok",
    "error": "error",
    "unverified": "unverified: it may have happened; check before doing it again",
}


def render_opening(entry: Opened) -> str:
    """Render the header of a turn."""
    return f"\n{RULE}\nTURN {entry.turn} (started at {entry.at})\n{RULE}\n"


def render_prompt(event: Inbound, path: str, carried: str = "") -> str:
    """Render a message that opened the turn; `carried` is where it stands in the turn before, if it came there."""
    origin = f"[carried over from: {carried}]\n" if carried else ""
    return f"\n[ts: {event.at}]\n[USER MESSAGE]\n[path: {path}]\n{origin}{quote(event.text)}\n"


def render_event(event: Inbound, path: str) -> str:
    """Render an event that came while a turn was open, or between turns."""
    header = _HEADERS.get(event.event, "[EXTERNAL EVENT]")
    return f"\n[ts: {event.at}]\n{header}\n[path: {path}]\n{quote(event.text)}\n"


def render_round(entry: Decided, unseen: Sequence[str]) -> str:
    """Render the top of a round's frame.

    `unseen` are the paths of events that stand above and were not there when the model was asked.
    """
    late = f"[decided before it could read: {', '.join(unseen)}]\n" if unseen else ""
    return f"\n{ROUND_TOP[0]}{entry.iteration + 1}{ROUND_TOP[1]}\n{late}"


def render_thinking(text: str) -> str:
    """Render what the model thought before it decided."""
    return f"[thinking]\n{quote(text)}\n"


def render_notes(text: str) -> str:
    """Render what the model told the user while it works."""
    return f"[AI Agent say]: {quote(text)[len(INDENT) :]}\n"


def render_code(action: Action, turn: str) -> str:
    """Render the program of an action."""
    return f"[AI Agent wrote code] fi:{turn}.code.{action.call_id}\n{quote(action.code or '')}\n"


def render_call(action: Action, turn: str) -> str:
    """Render one tool call, its long parameters cut."""
    call, path = action.call_id, f"tc:{turn}.{action.call_id}.call"
    return f"[TOOL CALL {call}].call {action.tool_id}\n[path: {path}]\nParams: {render_params(action.params, path)}\n"


def render_raw(text: str) -> str:
    """Render a decision that was interrupted, as far as it came."""
    return f"[REACT DECISION RAW INTERRUPTED]\n{quote(text)}\n"


def render_answer(text: str, path: str) -> str:
    """Render an answer that the user has."""
    return f"\n[ASSISTANT MESSAGE]\n[path: {path}]\n{quote(text)}\n"


def render_end() -> str:
    """Render the end of a round's frame."""
    return f"{ROUND_BOTTOM}\n"


def render_notice(notice: Notice, path: str, accepted: bool) -> str:
    """Render a correction of the runtime's."""
    dropped = PARENT in notice.extra
    violation = not accepted or dropped or notice.code.startswith("protocol_violation.")
    header = "[PROTOCOL VIOLATION]" if violation else "[REACT NOTICE]"
    extra = f"extra: {inline_json(notice.extra)}\n" if notice.extra else ""
    return (
        f"{header}\n[path: {path}]\ncode: {inline(notice.code)}\nmessage:\n{quote(notice.message)}\n{extra}"
    )


def render_status(entry: Resulted) -> str:
    """Render the head of what an action did."""
    error = f"error: {inline_json(entry.error)}\n" if entry.error else ""
    return f"[TOOL RESULT {entry.call_id}].result {entry.tool_id}\nstatus: {_STATUS[entry.status]}\n{error}"


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


def render_outcome(entry: Deferred, path: str, unseen: Sequence[str]) -> str:
    """Render why the answer above was not the turn's last word."""
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


def render_closing(entry: Closed, plans: Sequence[Plan]) -> str:
    """Render the end of a turn; `plans` are those that it changed and left open."""
    if entry.outcome == "error":
        return f"\n[TURN ENDED] error: {inline(entry.code)}\n"
    return f"\n[TURN ENDED] {inline(entry.reason)}; answer: ar:{entry.turn}.assistant.completion\n"


def render_note(block: Produced, path: str) -> str:
    """Render what the agent noted for itself."""
    return f"[INTERNAL NOTE]\n[path: {path}]\n{quote(block.text)}\n"


def render_stage(block: Produced, path: str, at: str) -> str:
    """Render what the code of a bundle put on the timeline."""
    where = f"[path: {path}]\n" if path else ""
    return f"\n[ts: {at}]\n[{inline(block.type).upper()}]\n{where}{quote(block.text)}\n"


def render_feedback(entry: Feedback, path: str) -> str:
    """Render what somebody thinks of a turn's answer."""
    header = "[USER FEEDBACK]" if entry.origin == "user" else "[AUTO FEEDBACK]"
    text = f"{quote(entry.text)}\n" if entry.text else ""
    return f"\n[ts: {entry.at}]\n{header}\n[path: {path}]\nreaction: {entry.reaction or 'none'}\n{text}"
