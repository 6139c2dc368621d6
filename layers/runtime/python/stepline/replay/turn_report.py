"""The report of a replayed turn: what differs from the record, and both costs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.entry import Closed, Decided
from stepline.model.tenancy.price import dollars
from stepline.ports.model import DECISION_ROLE
from stepline.replay.recorded_turn import RecordedTurn

Outcome: TypeAlias = Literal["equal", "differs", "diverged"]

DECISION_FIELDS: Final = (
    "action", "accepted", "interrupted", "thinking", "notes", "actions", "answer", "followups", "summary", "raw",
    "notices", "plan", "citations", "unresolved", "ended", "declined", "show_artifacts", "show_skills", "value",
)  # fmt: skip
"""The fields of a decision that are compared: what it says, not when, and not what it cost."""
CLOSE_FIELDS: Final = ("outcome", "reason", "code", "answer", "followups", "citations", "value")


class Spent(Value, omit_defaults=False):
    """The tokens of the decisions of a turn, and their price; a model without a price counts as 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0


class RoundReport(Value, omit_defaults=False):
    """One round: whether the request was equal, and the fields in which the decision differs.

    `missing`: only the record has the round; `added`: only the replay.
    """

    iteration: int
    request_equal: bool = True
    differs: tuple[str, ...] = ()
    missing: bool = False
    added: bool = False

    @property
    def equal(self) -> bool:
        """True if nothing differs."""
        return self.request_equal and not (self.differs or self.missing or self.added)


class TurnReport(Value, omit_defaults=False):
    """A replayed turn. `where` says in a sentence where it first differs, "" if it is equal.

    `diverged`: the replay ended at a request that the record does not have, or at an event that it lacks. `closes_differ`
    are the fields in which the ends differ. `asked` counts the calls of a model.
    """

    conversation: str
    turn_id: str
    outcome: Outcome
    where: str
    rounds: tuple[RoundReport, ...]
    closes_differ: tuple[str, ...]
    answer_recorded: str
    answer_replayed: str
    recorded: Spent
    replayed: Spent
    asked: int = 0


def report_turn(
    turn: RecordedTurn, replayed: Sequence[Batch], *, diverged: str = "", asked: int = 0
) -> TurnReport:
    """Compare a recorded turn with the batches of its replay; `diverged` says where that ended, if it did."""
    decisions = _decisions(replayed)
    rounds = tuple(_rounds(turn.decisions, decisions))
    closed = next(
        (e for b in replayed for e in b.entries if isinstance(e, Closed) and e.turn == turn.turn), None
    )
    closes = _differing(turn.closed, closed, CLOSE_FIELDS) if closed else ("outcome",)
    where = diverged or _where(turn.turn, rounds, closes)
    return TurnReport(
        conversation=turn.lane.conversation,
        turn_id=turn.turn,
        outcome="diverged" if diverged else "differs" if where else "equal",
        where=where,
        rounds=rounds,
        closes_differ=closes,
        answer_recorded=turn.closed.answer,
        answer_replayed=closed.answer if closed else "",
        recorded=_spent(turn.own),
        replayed=_spent(replayed),
        asked=asked,
    )


def _decisions(batches: Iterable[Batch]) -> tuple[Decided, ...]:
    return tuple(entry for batch in batches for entry in batch.entries if isinstance(entry, Decided))


def _rounds(recorded: Sequence[Decided], replayed: Sequence[Decided]) -> Iterable[RoundReport]:
    for old, new in zip(recorded, replayed, strict=False):
        yield RoundReport(
            iteration=old.iteration,
            request_equal=old.sent is not None and new.sent is not None and _same_request(old, new),
            differs=_differing(old, new, _fields(old, new)),
        )
    for old in recorded[len(replayed) :]:
        yield RoundReport(iteration=old.iteration, missing=True)
    for new in replayed[len(recorded) :]:
        yield RoundReport(iteration=new.iteration, added=True)


def _fields(old: Decided, new: Decided) -> tuple[str, ...]:
    """Return the fields to compare: the record does not say up to where an interrupted text was read."""
    cut = old.interrupted and new.interrupted
    return tuple(name for name in DECISION_FIELDS if not (cut and name == "thinking"))


def _same_request(old: Decided, new: Decided) -> bool:
    assert old.sent is not None
    assert new.sent is not None
    return not old.sent.carries_digest or old.sent.digest == new.sent.digest


def _differing(old: Decided | Closed, new: Decided | Closed, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if getattr(old, name) != getattr(new, name))


def _where(turn: str, rounds: Sequence[RoundReport], closes: Sequence[str]) -> str:
    first = next((one for one in rounds if not one.equal), None)
    if first is None:
        return f"{turn} ends with another {', '.join(closes)}" if closes else ""
    name = f"{turn}, round {first.iteration}"
    if first.missing:
        return f"{name}: the replay ends before it"
    if first.added:
        return f"{name}: the record ends before it"
    what = [*(() if first.request_equal else ("request",)), *first.differs]
    return f"{name}: another {', '.join(what)}"


def _spent(batches: Iterable[Batch]) -> Spent:
    decided = [batch for batch in batches if _decisions((batch,))]
    calls = [call for batch in decided for call in batch.calls if call.role == DECISION_ROLE]
    return Spent(
        input_tokens=sum(call.usage.prompt_tokens for call in calls),
        output_tokens=sum(call.usage.output_tokens for call in calls),
        usd=float(dollars(sum(call.nanos for call in calls))),
    )
