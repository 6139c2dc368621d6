"""Judge a generation: from a transcript to the decisions that count, and notices for the model.

Pure. A generation may hold several decisions; each is accepted or refused separately, and a generation without
an accepted one is refused and runs nothing. Errors that can be corrected without a guess are corrected and
reported in a notice, because a refusal costs a round. An answer that the user has seen is never taken back.

Each decision is admitted by its action and tool, then checked alone, then checked against those accepted
before it: the same call twice, one file written twice, a file used before it exists. A refused one only costs
a notice; the others run in the order in which they were written. A decision owns the text of the code channel
right after it; one that is alone in its round owns the program in any position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from stepline.errors import DecisionError
from stepline.model.base import Value
from stepline.model.decision import Action, ActionName, Notice, ParsedDecision, ToolCall
from stepline.protocol.decision.body import ActionIdentity, check_action, identify, read_body
from stepline.protocol.decision.call_check import (
    Collisions,
    ToolSpecLike,
    binds,
    check_call,
    check_order,
    check_references,
)
from stepline.protocol.decision.fanout import (
    INCOMPATIBLE,
    INVALID_ITEM,
    TOO_MANY,
    Admission,
    Candidate,
    make_candidate,
)
from stepline.protocol.decision.notice import MISPLACED, NOTHING_RAN, cap, make_notice
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.decision.shape import check_decisions, check_shape
from stepline.protocol.decision.staging import STAGED_MAX
from stepline.protocol.parser.channel_parser import INTERRUPTED_REASONS, Instance, Transcript
from stepline.protocol.parser.grammar import CODE, DECISION, SUMMARY, THINKING, ChannelSpec

_CUT = frozenset({"max_tokens", "model_context_window_exceeded", "cut", "too_long"})
_ENDS = frozenset({"complete", "exit"})


class RoundVerdict(Value):
    """The result of a round. Refused: no `decisions`, no `actions`, and the notices give the reasons.

    `decisions` are the accepted ones, in order, and `actions` the calls they make. `salvaged`: the answering
    decision was refused, but the user had seen its answer, so it counts as `complete`.
    """

    accepted: bool
    decisions: tuple[ParsedDecision, ...] = ()
    actions: tuple[Action, ...] = ()
    thinking: tuple[str, ...] = ()
    code: str = ""
    summary: str = ""
    notices: tuple[Notice, ...] = ()
    salvaged: bool = False

    @property
    def decision(self) -> ParsedDecision | None:
        """The decision that determines the round: the answering one, else the first; None if refused."""
        answers = (one for one in self.decisions if one.action in _ENDS)
        return next(answers, self.decisions[0] if self.decisions else None)

    @property
    def notes(self) -> str:
        """The notes of all accepted decisions, joined by line breaks."""
        return "\n".join(one.notes for one in self.decisions if one.notes.strip())

    @property
    def show_artifacts(self) -> tuple[str, ...]:
        """The paths that all accepted decisions stage, each once."""
        return tuple(dict.fromkeys(path for one in self.decisions for path in one.show_artifacts))[
            :STAGED_MAX
        ]

    @property
    def show_skills(self) -> tuple[str, ...]:
        """The skills that they stage, each once."""
        return tuple(dict.fromkeys(skill for one in self.decisions for skill in one.show_skills))[:STAGED_MAX]


def read_decision(
    transcript: Transcript, rules: RoundRules, *, stop_reason: str = "end_turn", streamed_answer: str = ""
) -> RoundVerdict:
    """Judge a generation.

    Args:
        transcript: of the closed parser.
        rules: the actions that may run in this round.
        stop_reason: the provider's; `max_tokens` and similar mean that the end is missing.
        streamed_answer: the part of `final_answer` that the user has already seen.
    """
    cut = stop_reason if stop_reason in _CUT else ""
    tolerated: list[Notice] = []
    ruling = Ruling()
    try:
        tolerated += check_shape(transcript, strict=rules.strict)
        check_decisions(transcript)
    except DecisionError as refused:
        notices = [_refusal(refused, cut)]
    else:
        ruling = rule_on(transcript, rules, cut=bool(cut))
        notices = _refusal_notices(ruling, cut)
    kept = ruling.kept
    answers = any(one.candidate.ends for one in kept)
    guilty = next((one for one in ruling.refused if one.identity.action in _ENDS), None)
    partial = bool(cut) and (guilty is None or (guilty.cut and guilty.code == "json_decode_error"))
    salvages = not answers and bool(streamed_answer.strip()) and (rules.last_round or not partial)
    if salvages:
        kept = tuple(one for one in kept if one.candidate.neutral)
        notices = [_answer_kept(guilty, notices), *(notices if ruling.count > 1 else ())]
    elif kept:
        # For a refused generation, tolerated errors do not matter, and "the rest counts" would be false.
        notices = [*tolerated, *ruling.notices, *notices]
    ends: ActionName = "complete" if rules.accept is None else "exit"  # complete has a value there
    salvaged = [ParsedDecision(action=ends, final_answer=streamed_answer)] if salvages else []
    decisions = (*(one.decision for one in kept), *salvaged)
    return RoundVerdict(
        accepted=bool(decisions),
        decisions=decisions,
        actions=tuple(one.action for one in kept if one.action),
        thinking=thoughts(transcript),
        code="\n".join(body for body in transcript.bodies(CODE.name) if body.strip()),
        summary="\n\n".join(_texts(transcript, SUMMARY)) if answers or salvages else "",
        notices=tuple(notices),
        salvaged=salvages,
    )


def thoughts(transcript: Transcript) -> tuple[str, ...]:
    """Return the texts of thinking that are not blank."""
    return _texts(transcript, THINKING)


def _texts(transcript: Transcript, channel: ChannelSpec) -> tuple[str, ...]:
    return tuple(body.strip() for body in transcript.bodies(channel.name) if body.strip())


def _refusal_notices(ruling: Ruling, cut: str) -> list[Notice]:
    """Return a notice for each refused decision, and one if the generation was cut after the accepted ones.

    `cut` is the provider's stop reason; empty if the generation is complete.
    """
    if ruling.count == 1 and ruling.refused:
        (one,) = ruling.refused
        return [_refusal(DecisionError(one.message, code=one.code, **one.facts), cut)]
    notices = [_sibling(one, cut) for one in ruling.refused]
    if cut and ruling.kept and not any(one.cut or one.code == TOO_MANY for one in ruling.refused):
        message = "The generation was cut short behind the decision; the decision counts."
        notices.append(make_notice("generation_truncated", message, stop_reason=cut))
    return notices


def _sibling(one: _RefusedDecision, cut: str) -> Notice:
    notice = one.notice()
    if not one.cut:
        return notice
    message = (
        f"Action {one.number} was not run: the generation was cut by its output limit before it was whole. "
        "Send it again in a round of its own."
    )
    facts = {**notice.extra, "parser_error": f"{one.code}: {one.message}", "stop_reason": cut}
    return make_notice("generation_truncated", message, **facts)


def _refusal(refused: DecisionError, cut: str) -> Notice:
    """Return the notice for a refused generation of at most one decision."""
    if not cut:
        return make_notice(refused.reason, str(refused), **refused.context)
    message = (
        f"The generation was cut by its output limit before the decision was whole. {NOTHING_RAN} "
        "Send it again in smaller steps: shorter thinking, long content in several calls of react.write."
    )
    return make_notice(
        "generation_truncated", message, stop_reason=cut, parser_error=f"{refused.reason}: {refused}"
    )


def _answer_kept(guilty: _RefusedDecision | None, notices: Sequence[Notice]) -> Notice:
    """Return the notice that an answer remains valid although its decision was refused, with the reason."""
    message = "The decision broke the protocol, but its answer had reached the user, so the answer stands as it was."
    code, error = (guilty.code, guilty.message) if guilty else (notices[0].code, notices[0].message)
    return make_notice("answer_kept_from_stream", message, reason=code, parser_error=error)


_WHY: Final[Mapping[str, str]] = {
    TOO_MANY: "the round already had as many actions as it may have. Send it in the next round.",
    INVALID_ITEM: "it does not say what it is. Send it again with one JSON object, action and tool_id first.",
    INCOMPATIBLE: (
        "beside what stands before it in this round it may depend on results that nobody has read yet. "
        "Send it in the next round."
    ),
    "multi_action_bundle_final_answer_after_non_neutral": (
        "an answer stands beside neutral actions only, because it may speak of results that nobody has read yet. "
        "Answer in a later round."
    ),
    "multi_action_bundle_non_neutral_after_final_answer": (
        "beside an answer neutral actions run and no others. Call the tool first and answer in a later round."
    ),
    "multi_action_bundle_mixed_actions": "an answer and calls do not share a round. Answer in a round of its own.",
    "multi_action_bundle_unsafe_tool": (
        "a round takes one program, and no tools but those that may share a round. Send it in a round of its own."
    ),
}
"""The notices for decisions that do not fit beside the others."""


class Kept(Value):
    """An accepted decision, and the call it makes."""

    decision: ParsedDecision
    candidate: Candidate
    action: Action | None = None


class _RefusedDecision(Value):
    """A refused decision: its number from 1, and the id that its call would have had.

    `cut`: its end is missing because the generation's is.
    """

    number: int
    call_id: str
    identity: ActionIdentity
    code: str
    message: str
    facts: Mapping[str, str | float | list[str] | None]
    cut: bool

    def notice(self) -> Notice:
        """Return the notice for a refused decision that had siblings."""
        reason = self.message.replace(f" {NOTHING_RAN}", "")  # the others may have run
        facts = {key: value for key, value in self.facts.items() if key != "tool_id"}
        return make_notice(
            self.code,
            f"Action {self.number} was not run: {reason}",
            index=self.number,
            tool_id=cap(self.identity.tool_id, 80) or None,
            parent_tool_call_id=self.call_id,
            **facts,
        )


class Ruling(Value):
    """The ruling on the decisions of one generation, `count` in all.

    Decisions after the first over the limit are not reported. `notices` are about the accepted ones.
    """

    count: int = 0
    kept: tuple[Kept, ...] = ()
    refused: tuple[_RefusedDecision, ...] = ()
    notices: tuple[Notice, ...] = ()


def rule_on(transcript: Transcript, rules: RoundRules, *, cut: bool = False) -> Ruling:
    """Return the accepted and refused decisions; blank ones are ignored.

    `cut`: the generation's end is missing.
    """
    instances = [one for one in transcript.of(DECISION.name) if one.raw.strip()]
    programs = bind_programs(transcript)
    judge = _Judge(rules, alone=len(instances) == 1, cut=cut)
    kept: list[Kept] = []
    refused: list[_RefusedDecision] = []
    notices: list[Notice] = []
    for number, instance in enumerate(instances, 1):
        if refused and refused[-1].code == TOO_MANY:
            break  # a stream in small pieces would have stopped reading here
        identity, own = identify(instance.raw), list[Notice]()
        try:
            one = judge.keep(instance, number, identity, programs.get(instance.instance, ()), own)
        except DecisionError as error:
            refused.append(
                _RefusedDecision(
                    number=number,
                    call_id=rules.call_id(instance.instance),
                    identity=identity,
                    code=error.reason,
                    message=str(error),
                    facts=error.context,
                    cut=cut and _is_unfinished(instance, cut=cut) and instance.reason != "policy",
                )
            )
        else:
            kept.append(one)
            notices += own if len(instances) == 1 else [_numbered(notice, number) for notice in own]
    return Ruling(count=len(instances), kept=tuple(kept), refused=tuple(refused), notices=tuple(notices))


def _numbered(notice: Notice, number: int) -> Notice:
    return replace(notice, extra={"decision": number, **notice.extra})


class _Judge:
    """Judges the decisions of one generation, in order."""

    def __init__(self, rules: RoundRules, *, alone: bool, cut: bool) -> None:
        self._rules = rules
        self._alone = alone
        self._cut = cut
        self._admission = Admission(rules.fanout, rules.tools, rules.allowed, last_round=rules.last_round)
        self._collisions = Collisions(rules.tools, rules.turn, rules.sources)

    def keep(
        self,
        instance: Instance,
        number: int,
        identity: ActionIdentity,
        programs: tuple[Instance, ...],
        notices: list[Notice],
    ) -> Kept:
        """Return a decision that counts, and add notices for its corrections. Raises DecisionError."""
        rules = self._rules
        code = self._admission.ask(*identity)
        # A single decision gets its own error instead.
        if code in _WHY and not self._alone:
            raise DecisionError(_WHY[code], code=code, details=self._details(code, instance))
        mends = not rules.strict and not _is_unfinished(instance, cut=self._cut)
        decision = read_body(instance.raw, notices, repairs_calls=mends, stage=rules.stage)
        named = decision.tool_call.tool_id if decision.tool_call else ""
        if not identity.same(ActionIdentity(decision.action, named)):
            raise _two_readings(identity)
        decision = check_action(decision, notices, last_round=rules.last_round)
        if rules.accept is not None:
            from stepline.protocol.decision.result_value import check_value  # noqa: PLC0415 - few agents have a result type

            decision = check_value(decision, rules.accept, notices, last_round=rules.last_round)
        elif decision.value is not UNSET:
            decision = replace(decision, value=UNSET)
        call = decision.tool_call
        if call:
            check_call(call, rules.tools, rules.allowed)
            check_order(call, rules.tools, notices)
        program = _check_program(call, rules.tools, programs, notices, alone=self._alone, cut=self._cut)
        candidate = make_candidate(decision.action, call.tool_id if call else "", rules.tools)
        if call is None:
            return Kept(decision=decision, candidate=candidate)
        self._collisions.check(call, program)
        if binds(call.tool_id, runs_code=candidate.runs_code):
            call = check_references(call, rules.refer, notices)
        self._collisions.add(call, number, program)
        action = Action(
            call_id=rules.call_id(instance.instance), tool_id=call.tool_id, params=call.params, code=program
        )
        return Kept(decision=decision, candidate=candidate, action=action)

    def _details(self, code: str, instance: Instance) -> str:
        """Return the facts about the obstacle of a decision that does not fit beside the others."""
        if code == INVALID_ITEM:
            try:
                read_body(instance.raw, [])
            except DecisionError as error:
                return f"{error.reason}: {error}".replace(f" {NOTHING_RAN}", "")
        return (
            f"admitted before it: {', '.join(one.tool_id or one.action for one in self._admission.admitted)}"
        )


def _is_unfinished(instance: Instance, *, cut: bool) -> bool:
    """Return True if the decision is incomplete; `cut`: the generation's end is missing."""
    return instance.reason in INTERRUPTED_REASONS or (cut and instance.reason == "eof")


def _two_readings(identity: ActionIdentity) -> DecisionError:
    """Return the error for a decision with two readings: the user may have seen the other one."""
    return DecisionError(
        f"The channel holds more than one decision: {cap(identity.tool_id or identity.action, 80)}, and another one. "
        f"{NOTHING_RAN} Write exactly one JSON object into a decision channel, and nothing else.",
        code="multi_decision_in_one_channel",
    )


def bind_programs(transcript: Transcript) -> dict[int, tuple[Instance, ...]]:
    """Return the non-blank code channels by the index of the decision before them.

    -1 for those before every decision.

    Blank decisions own none, and a single decision owns all.
    """
    decisions = [one.instance for one in transcript.of(DECISION.name) if one.raw.strip()]
    bound: dict[int, list[Instance]] = {}
    owner = decisions[0] if len(decisions) == 1 else -1
    for one in transcript.instances:
        if not one.raw.strip():
            continue
        if one.channel == DECISION.name:
            owner = one.instance
        elif one.channel == CODE.name:
            bound.setdefault(owner, []).append(one)
    return {owner: tuple(programs) for owner, programs in bound.items()}


def _check_program(
    call: ToolCall | None,
    tools: Mapping[str, ToolSpecLike],
    programs: Sequence[Instance],
    notices: list[Notice],
    *,
    alone: bool = True,
    cut: bool = False,
) -> str | None:
    """Return the program that a call runs, None if it runs none. Raises DecisionError.

    The call has passed `check_call`; `programs` are its own. `alone`: the round has no other decision; `cut`:
    the end of the generation is missing.
    """
    if call is None or not tools[call.tool_id].runs_code:
        if programs and call and alone:
            raise DecisionError(
                f"The code channel held a program, but {call.tool_id} runs none. {NOTHING_RAN} "
                "Leave the channel empty, or call the tool that runs code.",
                code=MISPLACED,
                tool_id=call.tool_id,
            )
        if programs:
            notices.append(_stray(call))
        return None
    if not programs:
        raise DecisionError(
            f"The call runs code, but no program stood behind it. {NOTHING_RAN} "
            "Write the program into a code channel right behind the decision that runs it.",
            code="code_channel_missing",
        )
    if len(programs) > 1:
        raise DecisionError(
            f"There were {len(programs)} code channels for one call. {NOTHING_RAN} Write one program.",
            code=MISPLACED,
            channels=len(programs),
        )
    program = programs[0]
    if program.truncated and (cut or program.reason in INTERRUPTED_REASONS):
        raise DecisionError(f"The program was cut off. {NOTHING_RAN}", code="generation_truncated")
    return program.raw


def _stray(call: ToolCall | None) -> Notice:
    if call is None:
        message = (
            "The answer stands; the program in the code channel did not run. Leave it empty when you answer."
        )
        return make_notice(MISPLACED, message)
    message = (
        f"The program behind the call of {call.tool_id} did not run, because that tool runs none; the call counts. "
        "A program stands right behind the decision that runs it."
    )
    return make_notice(MISPLACED, message, tool_id=call.tool_id)
