"""From a transcript to a verdict: what the model decided, and what it has to be told.

Pure. A decision is accepted or refused as a whole; a refused one runs nothing. What can be put right without
a guess is put right and told in a notice, because a refusal costs a round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from stepline.errors import DecisionError
from stepline.model.base import Value
from stepline.model.decision import Action, Notice, ParsedDecision
from stepline.model.plan import MARKS
from stepline.protocol.body import read_body
from stepline.protocol.call import ToolSpecLike, check_call, check_code
from stepline.protocol.grammar import CODE, SUMMARY, THINKING, ChannelSpec
from stepline.protocol.notice import NOTHING_RAN, cap, make_notice
from stepline.protocol.shape import check_shape, single_decision
from stepline.protocol.transcript import Instance, Transcript

_CUT = frozenset({"max_tokens", "model_context_window_exceeded", "cut"})


class Verdict(Value):
    """What came of a round. Refused: no `decision`, no `actions`, and the last notice says why.

    `salvaged`: the decision was refused, but its answer had reached the user, so it counts as `complete`.
    """

    accepted: bool
    decision: ParsedDecision | None = None
    actions: tuple[Action, ...] = ()
    thinking: tuple[str, ...] = ()
    code: str = ""
    summary: str = ""
    notices: tuple[Notice, ...] = ()
    salvaged: bool = False


def read_decision(
    transcript: Transcript,
    *,
    tools: Mapping[str, ToolSpecLike],
    allowed_tools: Collection[str],
    call_id: Callable[[int], str],
    last_round: bool = False,
    stop_reason: str = "end_turn",
    streamed_answer: str = "",
    strict: bool = False,
) -> Verdict:
    """Judge a generation that may hold one decision.

    Args:
        transcript: of the closed parser.
        tools: every tool's contract by id.
        allowed_tools: the ids the model itself may call; others of `tools` are for generated code.
        call_id: names the action of an index.
        last_round: only an answer is accepted.
        stop_reason: the provider's; `max_tokens` and its like mean that the end is missing.
        streamed_answer: what of `final_answer` the user has already seen.
        strict: tolerate nothing about the shape of the generation.

    """
    cut = stop_reason in _CUT
    notices: list[Notice] = []
    decision: ParsedDecision | None
    program = None
    salvaged = False
    try:
        notices += check_shape(transcript, strict=strict)
        decision = _check_action(
            read_body(single_decision(transcript), notices), notices, last_round=last_round
        )
        if decision.tool_call:
            check_call(decision.tool_call, tools, allowed_tools)
        program = check_code(decision.tool_call, tools, _programs(transcript), notices, cut=cut)
        if cut:
            notices.append(_cut_notice(stop_reason, refused=None))
    except DecisionError as refused:
        salvaged = bool(streamed_answer.strip()) and (last_round or not cut)
        decision = ParsedDecision(action="complete", final_answer=streamed_answer) if salvaged else None
        # What was tolerated does not matter any more, and "the rest counts" would not be true.
        notices = [_refusal(refused, stop_reason, salvaged=salvaged)]
    call = decision.tool_call if decision else None
    action = call and Action(call_id=call_id(0), tool_id=call.tool_id, params=call.params, code=program)
    return Verdict(
        accepted=decision is not None,
        decision=decision,
        actions=(action,) if action else (),
        thinking=_texts(transcript, THINKING),
        code="\n".join(one.raw for one in _programs(transcript)),
        summary="\n\n".join(_texts(transcript, SUMMARY)) if decision and not call else "",
        notices=tuple(notices),
        salvaged=salvaged,
    )


def _texts(transcript: Transcript, channel: ChannelSpec) -> tuple[str, ...]:
    return tuple(body.strip() for body in transcript.bodies(channel.name) if body.strip())


def _programs(transcript: Transcript) -> list[Instance]:
    return [one for one in transcript.of(CODE.name) if one.raw.strip()]


def _check_action(decision: ParsedDecision, notices: list[Notice], *, last_round: bool) -> ParsedDecision:
    """Return the decision without what does not belong to its action. Raises DecisionError."""
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
                "A round either calls a tool or answers. The tool ran; the final_answer was dropped. "
                "Answer in a later round, with action complete."
            )
            notices.append(
                make_notice(
                    "final_answer_with_tool_call", message, tool_id=call.tool_id, dropped_chars=len(answer)
                )
            )
        return ParsedDecision(action="call_tool", notes=decision.notes, tool_call=call)
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
    return ParsedDecision(
        action=decision.action,
        notes=_plan_marks(decision.notes, notices),
        final_answer=answer,
        suggested_followups=decision.suggested_followups,
    )


def _plan_marks(notes: str, notices: list[Notice]) -> str:
    """Return the lines of an answer's notes that acknowledge a plan's step; the rest belongs into the answer."""
    lines = [line for line in notes.splitlines() if line.strip()]
    marks = [line for line in lines if line.lstrip().startswith(tuple(MARKS.values()))]
    if len(marks) < len(lines):
        message = "The answer stands; its notes were dropped. With an answer, notes hold plan marks and nothing else."
        notices.append(make_notice("final_answer_with_notes", message, dropped_lines=len(lines) - len(marks)))
    return "\n".join(marks)


def _refusal(refused: DecisionError, stop_reason: str, *, salvaged: bool) -> Notice:
    if salvaged:
        message = "The decision broke the protocol, but its answer had reached the user, so the answer stands as it was."
        return make_notice(
            "answer_kept_from_stream", message, reason=refused.reason, parser_error=str(refused)
        )
    if stop_reason in _CUT:
        return _cut_notice(stop_reason, refused=refused)
    return make_notice(refused.reason, str(refused), **refused.context)


def _cut_notice(stop_reason: str, refused: DecisionError | None) -> Notice:
    if refused is None:
        message = "The generation was cut by its output limit behind the decision; the decision counts."
        return make_notice("generation_truncated", message, stop_reason=stop_reason)
    message = (
        f"The generation was cut by its output limit before the decision was whole. {NOTHING_RAN} "
        "Send it again in smaller steps: shorter thinking, long content in several calls of react.write."
    )
    return make_notice(
        "generation_truncated", message, stop_reason=stop_reason, parser_error=f"{refused.reason}: {refused}"
    )
