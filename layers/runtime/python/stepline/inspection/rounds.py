"""The turns and rounds of a conversation, from its log: their times, their models, and their usage."""

from __future__ import annotations

from collections.abc import Iterable

from stepline.errors import AuthError
from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.entry import Closed, Decided, Opened
from stepline.model.usage import Usage
from stepline.ports.channel import Inspect, Principal


class WholeValue(Value, omit_defaults=False):
    """A value with all of its fields in JSON, for clients."""


class Tokens(WholeValue):
    """Tokens by cache class; `estimated` if the provider did not count all of them."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False


class MissedCache(WholeValue):
    """A request that read less from a live cache than the cache held."""

    reason: str
    expected_tokens: int
    read_tokens: int


class RoundView(WholeValue):
    """A round: the batch that decided it, and the newest one that the model had seen. `ended_at` is the decision's time."""

    iteration: int
    claim: int
    decided_n: int
    rendered_n: int
    started_at: str
    ended_at: str
    model: str
    accepted: bool
    interrupted: bool
    usage: Tokens | None = None
    bust: MissedCache | None = None


class TurnRounds(WholeValue):
    """A turn and its rounds; `closed_n` is 0 and `outcome` "" while it is open."""

    turn_id: str
    opened_n: int
    closed_n: int
    outcome: str
    rounds: tuple[RoundView, ...]


class Rounds(WholeValue):
    """The turns of a conversation, oldest first."""

    turns: tuple[TurnRounds, ...]


def list_rounds(batches: Iterable[Batch]) -> Rounds:
    """Return the turns and rounds of a whole log."""
    turns: list[TurnRounds] = []
    rounds: list[RoundView] = []
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Opened():
                    rounds = []
                    turns.append(_turn(entry.turn, batch.n, rounds))
                case Decided():
                    rounds.append(_round(batch, entry))
                    turns[-1] = _turn(turns[-1].turn_id, turns[-1].opened_n, rounds)
                case Closed():
                    turns[-1] = _turn(entry.turn, turns[-1].opened_n, rounds, batch.n, entry.outcome)
                case _:
                    pass
    return Rounds(turns=tuple(turns))


def _turn(
    turn: str, opened: int, rounds: Iterable[RoundView], closed: int = 0, outcome: str = ""
) -> TurnRounds:
    return TurnRounds(turn_id=turn, opened_n=opened, closed_n=closed, outcome=outcome, rounds=tuple(rounds))


def _round(batch: Batch, entry: Decided) -> RoundView:
    bust = entry.bust
    return RoundView(
        iteration=entry.iteration,
        claim=entry.claim,
        decided_n=batch.n,
        rendered_n=batch.state.rendered,
        started_at=entry.started_at,
        ended_at=batch.at,
        model=entry.model,
        accepted=entry.accepted,
        interrupted=entry.interrupted,
        usage=name_tokens(entry.usage) if entry.usage else None,
        bust=MissedCache(
            reason=bust.reason, expected_tokens=bust.expected_tokens, read_tokens=bust.read_tokens
        )
        if bust
        else None,
    )


def name_tokens(usage: Usage) -> Tokens:
    """Return a usage with named fields."""
    return Tokens(**{name: getattr(usage, name) for name in Tokens.__struct_fields__})


def check_inspect(rule: Inspect, owner: Principal) -> None:
    """Raise AuthError `not_inspectable` if a stage with this rule does not let the owner inspect."""
    if rule == "none" or (rule == "admin" and not owner.is_admin):
        raise AuthError("this deployment does not show it", code="not_inspectable")
