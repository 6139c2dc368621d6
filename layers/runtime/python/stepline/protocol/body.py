"""The fields of a decision, from the body of its channel, each with its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepline.errors import DecisionError
from stepline.model.decision import ActionName, Notice, ParsedDecision, ToolCall
from stepline.protocol.candidate import read_object
from stepline.protocol.notice import NOTHING_RAN, cap, make_notice

_ACTIONS: dict[str, ActionName] = {"call_tool": "call_tool", "complete": "complete", "exit": "exit"}

DECISION_FIELDS = (
    (
        "action",
        "`call_tool`, `complete` or `exit`",
        "written first, because the round is judged while it streams",
    ),
    ("notes", "string", "a line of progress or plan marks for the user; empty with an answer"),
    (
        "tool_call",
        "`{tool_id, params}` or null",
        "for `call_tool`; `tool_id` first, `params` in documented order",
    ),
    ("final_answer", "string or null", "for `complete` and `exit`, and only there"),
    ("suggested_followups", "list of strings or null", "short things the user may want next"),
)


def read_body(body: str, notices: list[Notice]) -> ParsedDecision:
    """Return the decision a body holds. Raises DecisionError with a code of the JSON or `invalid_action`."""
    try:
        fields = read_object(body)
    except DecisionError as error:
        raise DecisionError(
            f"The decision could not be read: {error}. {NOTHING_RAN} "
            "Send the round again with exactly one JSON object in the decision channel.",
            code=error.reason,
            parser_error=str(error),
            raw_preview=body.strip(),
        ) from error
    wish = fields.get("action")
    action = _ACTIONS.get(wish) if isinstance(wish, str) else None
    if action is None:
        raise DecisionError(
            f"action was {cap(repr(wish), 80)}. {NOTHING_RAN} Set it to call_tool, complete or exit.",
            code="invalid_action",
            action=cap(str(wish), 80),
        )
    _check_identity(fields, notices)
    return ParsedDecision(
        action=action,
        notes=_text(fields, "notes"),
        tool_call=_tool_call(fields),
        final_answer=answer if (answer := _text(fields, "final_answer")).strip() else None,
        suggested_followups=_followups(fields, notices),
    )


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise _wrong_type(key, "a string or null", value)


def _wrong_type(key: str, wanted: str, value: object) -> DecisionError:
    return DecisionError(
        f"{key} must be {wanted}, it was {cap(repr(value), 120)}. {NOTHING_RAN} Send the round again.",
        code="decision_validate_error",
        field=key,
    )


def _tool_call(fields: Mapping[str, Any]) -> ToolCall | None:
    call = fields.get("tool_call")
    if not call:
        return None
    if not isinstance(call, dict):
        raise _wrong_type("tool_call", "an object or null", call)
    tool_id, params = call.get("tool_id") or "", call.get("params")
    if not isinstance(tool_id, str):
        raise _wrong_type("tool_call.tool_id", "a string", tool_id)
    if not isinstance(params, dict | None):
        raise DecisionError(
            f"params of {tool_id} must be an object, it was {cap(repr(params), 120)}. {NOTHING_RAN} "
            "Send the call again with its parameters by name.",
            code="bad_params",
            tool_id=cap(tool_id, 80),
        )
    return ToolCall(tool_id=tool_id, params=params or {}) if tool_id or params else None


def _followups(fields: Mapping[str, Any], notices: list[Notice]) -> tuple[str, ...]:
    value = fields.get("suggested_followups") or []
    items = value if isinstance(value, list) else [None]
    kept = tuple(one.strip() for one in items if isinstance(one, str) and one.strip())
    if len(kept) < len(items):
        message = (
            "suggested_followups must be a list of short texts; what was not was dropped, the rest counts."
        )
        notices.append(make_notice("suggested_followups_dropped", message, kept=len(kept)))
    return kept


def _check_identity(fields: Mapping[str, Any], notices: list[Notice]) -> None:
    keys = [key for key in fields if key in {"action", "notes", "tool_call", "final_answer"}]
    call = fields.get("tool_call")
    late_id = isinstance(call, dict) and "tool_id" in call and next(iter(call)) != "tool_id"
    if keys[0] != "action" or late_id:
        message = "The decision counts. Write action first, and tool_id first in tool_call: it is read as you write."
        notices.append(make_notice("identity_not_first", message))
