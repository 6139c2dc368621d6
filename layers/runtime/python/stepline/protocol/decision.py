"""From a transcript to a verdict: what the model decided, and what it has to be told.

Pure. A generation may hold several decisions; each counts or is refused by itself, and a generation of which
nothing is left is refused and runs nothing. What can be put right without a guess is put right and told in a
notice, because a refusal costs a round. An answer that the user has seen is never taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepline.errors import DecisionError
from stepline.model.base import Value
from stepline.model.decision import Action, Notice, ParsedDecision
from stepline.protocol.admission import TOO_MANY
from stepline.protocol.fanout import Candidate
from stepline.protocol.grammar import CODE, SUMMARY, THINKING, ChannelSpec
from stepline.protocol.notice import NOTHING_RAN, make_notice
from stepline.protocol.round import RoundRules
from stepline.protocol.ruling import Kept, Refused, Ruling, rule_on
from stepline.protocol.shape import check_decisions, check_shape
from stepline.protocol.transcript import Transcript

_CUT = frozenset({"max_tokens", "model_context_window_exceeded", "cut"})
_ENDS = frozenset({"complete", "exit"})


class Verdict(Value):
    """What came of a round. Refused: no `decisions`, no `actions`, and the notices say why.

    `decisions` are those that count, in order, and `actions` what they run. `salvaged`: the decision that answered
    was refused, but its answer had reached the user, so it counts as `complete`.
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
        """The decision that says what the round is: the one that answers, else the first; None if refused."""
        answers = (one for one in self.decisions if one.action in _ENDS)
        return next(answers, self.decisions[0] if self.decisions else None)

    @property
    def notes(self) -> str:
        """The notes of all decisions that count, one under the other."""
        return "\n".join(one.notes for one in self.decisions if one.notes.strip())


def read_decision(
    transcript: Transcript, rules: RoundRules, *, stop_reason: str = "end_turn", streamed_answer: str = ""
) -> Verdict:
    """Judge a generation.

    Args:
        transcript: of the closed parser.
        rules: what may run in this round.
        stop_reason: the provider's; `max_tokens` and its like mean that the end is missing.
        streamed_answer: what of `final_answer` the user has already seen.

    """
    cut = stop_reason if stop_reason in _CUT else ""
    tolerated: list[Notice] = []
    ruling = Ruling()
    try:
        tolerated += check_shape(transcript, strict=rules.strict)
        check_decisions(transcript)
    except DecisionError as refused:
        told = [_refusal(refused, cut)]
    else:
        ruling = rule_on(transcript, rules, cut=bool(cut))
        told = _told(ruling, cut)
    kept = ruling.kept
    answers = any(one.candidate.ends for one in kept)
    guilty = next((one for one in ruling.refused if one.identity.action in _ENDS), None)
    partial = bool(cut) and (guilty is None or (guilty.cut and guilty.code == "json_decode_error"))
    salvages = not answers and bool(streamed_answer.strip()) and (rules.last_round or not partial)
    if salvages:
        kept = (*(one for one in kept if one.candidate.neutral), _salvaged(streamed_answer))
        told = [_answer_kept(guilty, told), *(told if ruling.count > 1 else ())]
    elif kept:
        # Of a refused generation it does not matter what was tolerated, and "the rest counts" would not be true.
        told = [*tolerated, *ruling.notices, *told]
    return Verdict(
        accepted=bool(kept),
        decisions=tuple(one.decision for one in kept),
        actions=tuple(one.action for one in kept if one.action),
        thinking=_texts(transcript, THINKING),
        code="\n".join(body for body in transcript.bodies(CODE.name) if body.strip()),
        summary="\n\n".join(_texts(transcript, SUMMARY)) if answers or salvages else "",
        notices=tuple(told),
        salvaged=salvages,
    )


def _texts(transcript: Transcript, channel: ChannelSpec) -> tuple[str, ...]:
    return tuple(body.strip() for body in transcript.bodies(channel.name) if body.strip())


def _told(ruling: Ruling, cut: str) -> list[Notice]:
    """Return a notice for each decision that does not count, and one if the generation was cut behind those that do.

    `cut` is the provider's word for it; empty if the generation is whole.
    """
    if ruling.count == 1 and ruling.refused:
        (one,) = ruling.refused
        return [_refusal(DecisionError(one.message, code=one.code, **one.facts), cut)]
    told = [_sibling(one, cut) for one in ruling.refused]
    if cut and ruling.kept and not any(one.cut or one.code == TOO_MANY for one in ruling.refused):
        message = "The generation was cut short behind the decision; the decision counts."
        told.append(make_notice("generation_truncated", message, stop_reason=cut))
    return told


def _sibling(one: Refused, cut: str) -> Notice:
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
    """Return why a generation of one decision, or of none, is refused."""
    if not cut:
        return make_notice(refused.reason, str(refused), **refused.context)
    message = (
        f"The generation was cut by its output limit before the decision was whole. {NOTHING_RAN} "
        "Send it again in smaller steps: shorter thinking, long content in several calls of react.write."
    )
    return make_notice(
        "generation_truncated", message, stop_reason=cut, parser_error=f"{refused.reason}: {refused}"
    )


def _salvaged(answer: str) -> Kept:
    decision = ParsedDecision(action="complete", final_answer=answer)
    return Kept(decision=decision, candidate=Candidate(action="complete"))


def _answer_kept(guilty: Refused | None, told: Sequence[Notice]) -> Notice:
    """Return that an answer stands though its decision was refused, and why it was."""
    message = "The decision broke the protocol, but its answer had reached the user, so the answer stands as it was."
    code, error = (guilty.code, guilty.message) if guilty else (told[0].code, told[0].message)
    return make_notice("answer_kept_from_stream", message, reason=code, parser_error=error)
