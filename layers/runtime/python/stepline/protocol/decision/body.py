"""Parse the body of a decision channel: its identity, and its typed fields, only those that its action has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from stepline.errors import DecisionError
from stepline.model.decision import Notice, ParsedDecision, ToolCall
from stepline.model.plan_steps import STEP_MARKS
from stepline.protocol.decision.fanout import ACTIONS
from stepline.protocol.decision.json_repair import read_object, repair, repair_object
from stepline.protocol.decision.notice import NOTHING_RAN, cap, make_notice
from stepline.protocol.decision.staging import SHOW_ARTIFACTS, SKILLS, NamePath, name_skill, read_staging
from stepline.protocol.parser.field import FieldStream

ACTION: Final = ("action",)
TOOL_ID: Final = ("tool_call", "tool_id")
"""The path in a decision's object that identifies its tool."""

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
    (
        "show_artifacts",
        "list of strings or null",
        "beside a call, in the [journal](../concepts/journal.md) only: paths that the next round shows in full",
    ),
    ("show_skills", "list of strings or null", "the same for skills, by id or path"),
    (
        "value",
        "JSON value or null",
        "for `complete` of an agent with a [result type](../how-to/write-a-bundle.md#a-result-type) only",
    ),
)


def read_body(
    body: str, notices: list[Notice], *, repairs_calls: bool = False, stage: NamePath | None = None
) -> ParsedDecision:
    """Parse a decision from its body. Raises DecisionError with a JSON code or `invalid_action`.

    JSON repaired by a guess is accepted for an answer, which does no harm; for a call only if
    `repairs_calls`. Without `stage`, which names artifacts, nothing is staged: those fields are unknown.
    """
    try:
        fields = _read_fields(body, notices, repairs_calls=repairs_calls)
    except DecisionError as error:
        raise DecisionError(
            f"The decision could not be read: {error}. {NOTHING_RAN} "
            "Send the round again with exactly one JSON object in the decision channel.",
            code=error.reason,
            parser_error=str(error),
            raw_preview=body.strip(),
        ) from error
    wish = fields.get("action")
    action = ACTIONS.get(wish) if isinstance(wish, str) else None
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
        show_artifacts=read_staging(fields, SHOW_ARTIFACTS, stage, notices) if stage else (),
        show_skills=read_staging(fields, SKILLS, name_skill, notices) if stage else (),
        value=fields.get("value", UNSET),
    )


def _read_fields(body: str, notices: list[Notice], *, repairs_calls: bool) -> Mapping[str, Any]:
    try:
        found = read_object(body)
    except DecisionError as error:
        repaired = repair(body) if error.reason == "json_decode_error" else None
        if repaired is None:
            raise
        if repaired.guessed:
            if repaired.fields.get("action") == "call_tool" and not repairs_calls:
                raise
            message = (
                "The decision's JSON was broken; it was mended and counts. Escape quotes and close brackets."
            )
            notices.append(make_notice("decision_repaired", message, parser_error=str(error)))
        return repaired.fields
    if found.trailed:
        message = (
            "The decision counts; a second JSON object that followed in its channel was broken and was dropped. "
            "Write one object into one channel, and another decision into a channel of its own."
        )
        notices.append(make_notice("multi_decision_in_one_channel", message))
    return found.fields


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


def check_action(decision: ParsedDecision, notices: list[Notice], *, last_round: bool) -> ParsedDecision:
    """Return the decision without fields that its action does not have. Raises DecisionError."""
    call, answer = decision.tool_call, decision.final_answer
    if decision.action == "call_tool":
        if last_round:
            raise DecisionError(
                f"This is the last round and no tool runs any more. {NOTHING_RAN} "
                "Send action complete with a final_answer from what is known, and say what is missing.",
                code="last_round_requires_answer",
                tool_id=cap(call.tool_id, 80) if call else None,
            )
        if not call or not call.tool_id:
            raise DecisionError(
                f"action was call_tool without a tool_call.tool_id. {NOTHING_RAN} Name the tool.",
                code="missing_tool_id",
            )
        if answer:
            message = (
                "One decision either calls a tool or answers. The tool ran; the final_answer was dropped. "
                "Answer in a later round, with action complete."
            )
            notices.append(
                make_notice(
                    "final_answer_with_tool_call", message, tool_id=call.tool_id, dropped_chars=len(answer)
                )
            )
        return replace(decision, final_answer=None, suggested_followups=(), value=UNSET)
    if call:
        raise DecisionError(
            f"action was {decision.action} with a tool_call. {NOTHING_RAN} The answer does not stand. "
            "Call the tool first with action call_tool, or answer with tool_call null.",
            code="tool_call_with_final_answer",
            tool_id=cap(call.tool_id, 80),
        )
    if not answer:
        raise DecisionError(
            f"action was {decision.action} without a final_answer, so the user has no answer. Send it again with one.",
            code="final_answer_required",
        )
    if decision.show_artifacts or decision.show_skills:
        message = "The answer stands; nothing is shown in full behind it. Ask for that beside a call, and answer later."
        notices.append(make_notice("staging_with_answer", message))
    return ParsedDecision(
        action=decision.action,
        notes=_plan_marks(decision.notes, notices),
        final_answer=answer,
        suggested_followups=decision.suggested_followups,
        value=decision.value,
    )


def _plan_marks(notes: str, notices: list[Notice]) -> str:
    """Return the lines of an answer's notes that are plan marks; other notes belong in the answer."""
    marks = plan_marks(notes)
    dropped = sum(bool(line.strip()) for line in notes.splitlines()) - len(marks.splitlines())
    if dropped:
        message = "The answer stands; its notes were dropped. With an answer, notes hold plan marks and nothing else."
        notices.append(make_notice("final_answer_with_notes", message, dropped_lines=dropped))
    return marks


def plan_marks(notes: str) -> str:
    """Return the lines that are plan marks."""
    marks = tuple(STEP_MARKS.values())
    return "\n".join(line for line in notes.splitlines() if line.lstrip().startswith(marks))


class ActionIdentity(NamedTuple):
    """The action and tool that a decision names; `tool_id` only matters for `call_tool`."""

    action: str = ""
    tool_id: str = ""

    @property
    def known(self) -> bool:
        """True if it is enough to admit or refuse the decision."""
        return bool(self.tool_id) if self.action == "call_tool" else bool(self.action)

    def same(self, other: ActionIdentity) -> bool:
        """Return True if another reading of the decision agrees.

        Text in two pieces, or broken, has two readings.
        """
        return self.action == other.action and (self.action != "call_tool" or self.tool_id == other.tool_id)


def identify(body: str) -> ActionIdentity:
    """Return the identity of a whole decision: as streamed, otherwise from its repaired JSON."""
    action, tool_id = _Word(), _Word()
    words = {ACTION: action, TOOL_ID: tool_id}
    FieldStream(words.get).feed(body)
    streamed = ActionIdentity(action.text, tool_id.text)
    return streamed if streamed.known else identify_fields(repair_object(body) or {})


def identify_fields(fields: Mapping[str, object]) -> ActionIdentity:
    """Return the identity in a decision's object."""
    action, call = fields.get("action"), fields.get("tool_call")
    tool_id = call.get("tool_id") if isinstance(call, dict) else ""
    return ActionIdentity(
        action=action if isinstance(action, str) else "", tool_id=tool_id if isinstance(tool_id, str) else ""
    )


class _Word:
    """Collects a value; `text` is empty until it is complete."""

    def __init__(self) -> None:
        self.text = ""
        self._pieces: list[str] = []

    def take(self, text: str, /) -> None:
        self._pieces.append(text)

    def end(self) -> None:
        self.text = "".join(self._pieces)
