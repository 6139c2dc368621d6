"""The reply of the model in one round: its thinking, its decision, its text, and their cost."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from stepline.events.derive_close import read_value
from stepline.inspection.rounds import Tokens, WholeValue, name_tokens
from stepline.inspection.sent_request import find_decision
from stepline.model.batch import Batch
from stepline.model.decision import Action
from stepline.model.entry import Decided


class Thought(WholeValue):
    """A thinking block, with its beginning and end in milliseconds after the request; both are 0 if unknown."""

    text: str
    begin_ms: int
    end_ms: int


class CallView(WholeValue):
    """An action of the decision."""

    call_id: str
    tool_id: str
    params: dict[str, Any]


class DecisionView(WholeValue):
    """The decision as parsed from the text. `ended` says why the runtime answered instead of the model.

    `value` is the result of an agent with a result type, None without one.
    """

    action: str
    accepted: bool
    interrupted: bool
    notes: str
    actions: tuple[CallView, ...]
    final_answer: str
    suggested_followups: tuple[str, ...]
    summary: str
    ended: str
    value: Any = None


class Program(WholeValue):
    """The program of an action."""

    call_id: str
    text: str


class Remark(WholeValue):
    """A notice to the model for the next round."""

    code: str
    message: str
    extra: dict[str, Any]


class Refusal(WholeValue):
    """The text of a model that declined to answer."""

    category: str
    explanation: str


class Reply(WholeValue):
    """The reply in one round; `raw` is the text of a generation that was refused or interrupted.

    `first_ms` is the time from the request to the first thinking, in milliseconds; None if unknown.
    """

    iteration: int
    model: str
    started_at: str
    ended_at: str
    first_ms: int | None
    thinking: tuple[Thought, ...]
    decision: DecisionView
    code: tuple[Program, ...]
    raw: str
    notices: tuple[Remark, ...]
    usage: Tokens | None
    stop_reason: str
    declined: Refusal | None


def show_reply(decided: Batch) -> Reply:
    """Return the reply that a batch records. Raises NotFoundError `round_not_found`."""
    entry, _ = find_decision(decided)
    return show_decision(entry, ended_at=decided.at)


def show_decision(entry: Decided, *, ended_at: str) -> Reply:
    """Return the reply of a decision that was made at `ended_at`."""
    times, declined = entry.thinking_ms, entry.declined
    spans = zip_longest(entry.thinking, times[: len(entry.thinking)], fillvalue=(0, 0))
    return Reply(
        iteration=entry.iteration,
        model=entry.model,
        started_at=entry.started_at,
        ended_at=ended_at,
        first_ms=times[0][0] if times else None,
        thinking=tuple(
            Thought(text=str(text), begin_ms=int(span[0]), end_ms=int(span[1])) for text, span in spans
        ),
        decision=DecisionView(
            action=entry.action,
            accepted=entry.accepted,
            interrupted=entry.interrupted,
            notes=entry.notes,
            actions=tuple(map(_call, entry.actions)),
            final_answer=entry.answer,
            suggested_followups=entry.followups,
            summary=entry.summary,
            ended=entry.ended,
            value=read_value(entry.value),
        ),
        code=tuple(Program(call_id=one.call_id, text=one.code) for one in entry.actions if one.code),
        raw=entry.raw,
        notices=tuple(Remark(code=one.code, message=one.message, extra=one.extra) for one in entry.notices),
        usage=name_tokens(entry.usage) if entry.usage else None,
        stop_reason=entry.stop_reason or "end_turn",
        declined=Refusal(category=declined.category, explanation=declined.explanation) if declined else None,
    )


def _call(action: Action) -> CallView:
    return CallView(call_id=action.call_id, tool_id=action.tool_id, params=action.params)
