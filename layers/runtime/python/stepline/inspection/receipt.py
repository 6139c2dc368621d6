"""Receipts: the cost of each turn and each of its rounds, in tokens, dollars, time and services.

Model calls are in the log, one row each, with their price at the time of the call. A call that no batch has, because
its process continued after the end of its turn, has a note. The services that AWS bills are in the rows that invocations
store next to the log; an invocation whose process died stores none, and the receipt counts these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from stepline.events.derive_close import read_value, usage_line
from stepline.events.types import UsageLine
from stepline.inspection.rounds import Tokens, WholeValue, name_tokens
from stepline.model.batch import Batch
from stepline.model.entry import (
    Closed,
    Compacted,
    Contributed,
    Decided,
    Entry,
    Opened,
    Reopened,
    Resulted,
    Titled,
)
from stepline.model.tenancy.aws_price import price_consumption
from stepline.model.tenancy.consumption import InvocationCost, add_all, count_unreported
from stepline.model.tenancy.price import PRICES_AS_OF, Prices, dollars
from stepline.model.usage import ModelCall, Usage, call_ids, sum_calls, sum_usages
from stepline.ports.model import DECISION_ROLE


class RoundReceipt(WholeValue):
    """The cost of a round: of the call that was used and of the failed calls before it.

    `usd` is None if the price of the model is not known. `tools_ms` is the total time of its tool calls.
    """

    iteration: int
    decided_n: int
    model: str
    tokens: Tokens
    usd: float | None
    started_at: str
    model_ms: int
    tools_ms: int = 0


class OtherReceipt(WholeValue):
    """The cost of model calls outside the rounds, by the batch that records them, or else by the batch of their claim.

    `kind` is `title`, `summary`, `hook`, `tool`, or `failed` for calls of an attempt that failed or was discarded.
    `usd` is None if the price of a model is not known.
    """

    n: int
    kind: str
    tokens: Tokens
    usd: float | None = None


class AwsCost(WholeValue):
    """The cost of one unit of the AWS price list."""

    what: str
    quantity: float
    usd: float


class TurnReceipt(WholeValue):
    """The cost of a turn. `usd` is the sum of the known prices, `priced` is true if all prices are known.

    `lines` are its model calls by role and model. `aws` is the usage of its invocations, `aws_usd` its total cost, and
    `attempts_unreported` the number of attempts without a row of usage. `elapsed_ms` is None while the turn is open. `value` is the result
    of an agent with a result type, None without one.
    """

    turn_id: str
    started_at: str
    elapsed_ms: int | None
    model_ms: int
    tools_ms: int
    tokens: Tokens
    usd: float
    priced: bool
    rounds: tuple[RoundReceipt, ...]
    other: tuple[OtherReceipt, ...]
    lines: tuple[UsageLine, ...] = ()
    aws: tuple[AwsCost, ...] = ()
    aws_usd: float = 0.0
    attempts_unreported: int = 0
    value: Any = None


class ReplayReceipt(WholeValue):
    """The cost of a replayed round. `usd` is None if the price of its model is not known."""

    at: str
    model: str
    tokens: Tokens
    usd: float | None


class Receipts(WholeValue):
    """The receipts of a conversation, by turn, and their sum; `prices_of` is the date of the price table.

    The sum also has the model calls of `replays`, which belong to no turn, and `aws` also the usage between turns, such
    as uploads and reads of the conversation. A fork has its own turns only; `turns_before` is the number of those that
    it has from its origins.
    """

    turns: tuple[TurnReceipt, ...]
    tokens: Tokens
    usd: float
    priced: bool
    prices_of: str = PRICES_AS_OF
    lines: tuple[UsageLine, ...] = ()
    aws: tuple[AwsCost, ...] = ()
    aws_usd: float = 0.0
    attempts_unreported: int = 0
    replays: tuple[ReplayReceipt, ...] = ()
    turns_before: int = 0


KINDS: Final[Mapping[type[Entry], str]] = {
    Titled: "title",
    Compacted: "summary",
    Contributed: "hook",
    Resulted: "tool",
}
FAILED: Final = "failed"

Notes: TypeAlias = Mapping[int, Sequence[ModelCall]]
"""The calls that were noted under each claim."""
NO_NOTES: Final[Notes] = {}


@dataclass
class _Bill:
    """The receipt of a turn while its batches are read."""

    turn: str
    started_at: str
    opened: int
    rounds: list[RoundReceipt] = field(default_factory=list)
    other: list[OtherReceipt] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    tools_ms: dict[int, int] = field(default_factory=dict)
    epochs: set[int] = field(default_factory=set)
    elapsed_ms: int | None = None
    value: str = ""

    def add(self, batch: Batch, calls: Sequence[ModelCall]) -> None:
        """Add the calls of a batch: those of its decision, or others."""
        self.calls += calls
        used, usd = _used(calls), _usd(calls)
        decided = next((entry for entry in batch.entries if isinstance(entry, Decided)), None)
        if decided is not None:
            self.rounds.append(
                RoundReceipt(
                    iteration=decided.iteration,
                    decided_n=batch.n,
                    model=decided.model,
                    tokens=name_tokens(used),
                    usd=usd,
                    started_at=decided.started_at,
                    model_ms=_ms(decided.started_at, batch.at),
                )
            )
        elif used.prompt_tokens or used.output_tokens:
            kinds = (KINDS[type(entry)] for entry in batch.entries if type(entry) in KINDS)
            kind = next(kinds, FAILED)
            self.other.append(OtherReceipt(n=batch.n, kind=kind, tokens=name_tokens(used), usd=usd))

    def add_unrecorded(self, claim: int, calls: Sequence[ModelCall]) -> None:
        """Add calls under a claim of the turn that no batch has."""
        self.calls += calls
        row = OtherReceipt(n=claim, kind=FAILED, tokens=name_tokens(_used(calls)), usd=_usd(calls))
        self.other.append(row)

    def receipt(self, costs: Iterable[InvocationCost], prices: Prices, running: int) -> TurnReceipt:
        rounds = [replace(one, tools_ms=self.tools_ms.get(one.iteration, 0)) for one in self.rounds]
        own = [cost for cost in costs if cost.turn == self.turn]
        return TurnReceipt(
            turn_id=self.turn,
            started_at=self.started_at,
            elapsed_ms=self.elapsed_ms,
            value=read_value(self.value),
            model_ms=sum(one.model_ms for one in rounds),
            tools_ms=sum(self.tools_ms.values()),
            rounds=tuple(rounds),
            other=tuple(self.other),
            attempts_unreported=count_unreported(own, epochs=self.epochs, running=running),
            **_totals(self.calls),
            **_services(own, prices),
        )


def make_receipts(
    batches: Sequence[Batch],
    costs: Sequence[InvocationCost] = (),
    prices: Prices | None = None,
    noted: Notes = NO_NOTES,
) -> Receipts:
    """Return the receipts of a whole log; `costs` are the rows of its invocations, `prices` the prices of the deployment.

    `noted` are the calls that were noted under each claim. Of a fork, `batches` are its own.
    """
    prices = prices or Prices()
    batches, unrecorded = complete_calls(batches, noted)
    bills: list[_Bill] = []
    counted = next((batch.n for batch in batches if batch.calls), None)
    for batch in batches:
        calls = batch.calls if counted is not None and batch.n >= counted else _calls_of(batch, prices)
        _read(bills, batch, calls)
    for claim, more in unrecorded.items():
        if (bill := next((bill for bill in reversed(bills) if bill.opened <= claim), None)) is not None:
            bill.add_unrecorded(claim, more)
    state = batches[-1].state if batches else None
    running = state.epoch if state is not None and state.status == "open" else 0
    turns = [bill.receipt(costs, prices, running) for bill in bills]
    replayed = [call for cost in costs for call in cost.calls]
    return Receipts(
        turns=tuple(turns),
        turns_before=max(0, state.turns - len(turns)) if state is not None and state.forked else 0,
        attempts_unreported=sum(turn.attempts_unreported for turn in turns),
        replays=tuple(_replay(cost) for cost in costs if cost.calls),
        **_totals([*(call for bill in bills for call in bill.calls), *replayed]),
        **_services(costs, prices),
    )


def _replay(cost: InvocationCost) -> ReplayReceipt:
    calls = cost.calls
    return ReplayReceipt(at=cost.at, model=calls[-1].model, tokens=name_tokens(_used(calls)), usd=_usd(calls))


def complete_calls(
    batches: Sequence[Batch], noted: Notes
) -> tuple[Sequence[Batch], dict[int, list[ModelCall]]]:
    """Return the batches with the final state of each call, and by claim the noted calls that no batch has.

    A call that was recorded while its process seemed dead is an estimate in the log; if the call finished, its note has the
    exact count. Running calls are left out: their own batch will record them.
    """
    if not (batches and noted):
        return batches, {}
    known = call_ids(call for batch in batches for call in batch.calls)
    state = batches[-1].state
    before = state.claim if state.status == "open" else batches[-1].n + 1
    unrecorded = {
        claim: lost
        for claim, calls in noted.items()
        if claim < before and (lost := [call for call in calls if call.id not in known])
    }
    ended = {call.id: call for calls in noted.values() for call in calls if not call.usage.estimated}

    def whole(call: ModelCall) -> ModelCall:
        return ended.get(call.id, call) if call.usage.estimated else call

    return [replace(batch, calls=tuple(map(whole, batch.calls))) for batch in batches], unrecorded


def _read(bills: list[_Bill], batch: Batch, calls: Sequence[ModelCall]) -> None:
    """Add a batch to the receipts. Its calls belong to the turn that it ends, or to the turn whose hook made them."""
    turn = next((entry.turn for entry in batch.entries if isinstance(entry, Contributed)), "")
    bill = next((bill for bill in reversed(bills) if bill.turn == turn), bills[-1] if bills else None)
    if bill is not None:
        bill.add(batch, calls)
    for entry in batch.entries:
        match entry:
            case Opened():
                bills.append(_Bill(entry.turn, entry.at, batch.n))
            case Closed() if bill is not None:
                bill.elapsed_ms, bill.value = entry.elapsed_ms, entry.value
            case Resulted() if bill is not None:
                bill.tools_ms[entry.iteration] = bill.tools_ms.get(entry.iteration, 0) + entry.duration_ms
            case _:
                pass
    if bills and batch.state.turn == bills[-1].turn:
        bills[-1].epochs.add(batch.state.epoch)


def _calls_of(batch: Batch, prices: Prices) -> list[ModelCall]:
    """Return the calls of a batch by a release that recorded only their tokens, in its entries."""
    found: list[ModelCall] = []
    for entry in batch.entries:
        match entry:
            case Decided():
                used = (entry.usage or Usage(), entry.lost or Usage())
                found += [prices.call(DECISION_ROLE, entry.model, one, entry.started_at) for one in used]
            case Resulted() | Titled() | Compacted() | Contributed() | Reopened() if entry.usage is not None:
                kind = KINDS.get(type(entry), FAILED)
                found.append(ModelCall(role=kind, model="", usage=entry.usage))
            case _:
                pass
    return [call for call in found if call.usage.prompt_tokens or call.usage.output_tokens]


def _totals(calls: Sequence[ModelCall]) -> dict[str, Any]:
    """Return the fields of a receipt about model calls."""
    return {
        "tokens": name_tokens(_used(calls)),
        "usd": dollars(sum(call.nanos for call in calls)),
        "priced": all(call.priced for call in calls),
        "lines": tuple(usage_line(line) for line in sum_calls(calls)),
    }


def _services(costs: Iterable[InvocationCost], prices: Prices) -> dict[str, Any]:
    """Return the fields of a receipt about AWS."""
    lines = price_consumption(add_all(cost.used for cost in costs), prices.units)
    return {
        "aws": tuple(
            AwsCost(what=line.what, quantity=line.quantity, usd=dollars(line.nanos)) for line in lines
        ),
        "aws_usd": dollars(sum(line.nanos for line in lines)),
    }


def _used(calls: Iterable[ModelCall]) -> Usage:
    return sum_usages([Usage(), *(call.usage for call in calls)])


def _usd(calls: Sequence[ModelCall]) -> float | None:
    return dollars(sum(call.nanos for call in calls)) if all(call.priced for call in calls) else None


def _ms(start: str, end: str) -> int:
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000)
