"""Receipts: what each turn and each of its rounds took, in tokens, dollars and time, from the log alone.

Dollars are told where the price of a call is known; tokens always are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

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
from stepline.model.tenancy.price import READ, Prices, dollars
from stepline.model.usage import Usage, sum_usages


class RoundReceipt(WholeValue):
    """The cost of a round: of the call that was heard and of those before it that failed.

    `usd` is None where the price of the model is not known. `tools_ms` is what its calls took together.
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
    """The cost of model calls beside the rounds: of a title, a summary, a hook, a tool, or of an attempt that failed.

    The log does not name their model, so they have no price.
    """

    n: int
    kind: str
    tokens: Tokens


class TurnReceipt(WholeValue):
    """The cost of a turn. `usd` is the sum of what has a price, `priced` says whether that is all of it.

    `elapsed_ms` is None while the turn is open.
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


class Receipts(WholeValue):
    """The receipts of a conversation, by turn, and their sum; `prices_of` is the date of the price table."""

    turns: tuple[TurnReceipt, ...]
    tokens: Tokens
    usd: float
    priced: bool
    prices_of: str = READ


OTHERS: Final[Mapping[type[Entry], str]] = {
    Titled: "title",
    Compacted: "summary",
    Contributed: "hook",
    Reopened: "failed",
}


@dataclass
class _Bill:
    """The receipt of a turn while its batches are read."""

    turn: str
    started_at: str
    rounds: list[RoundReceipt] = field(default_factory=list)
    other: list[OtherReceipt] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    tools_ms: dict[int, int] = field(default_factory=dict)
    elapsed_ms: int | None = None

    def decided(self, batch: Batch, entry: Decided) -> None:
        heard, lost = entry.usage or Usage(), entry.lost or Usage()
        prices = [Prices().nanos(entry.model, one, entry.started_at) for one in (heard, lost)]
        self.usages.append(entry.cost)
        self.rounds.append(
            RoundReceipt(
                iteration=entry.iteration,
                decided_n=batch.n,
                model=entry.model,
                tokens=name_tokens(entry.cost),
                usd=None if None in prices else dollars(sum(price or 0 for price in prices)),
                started_at=entry.started_at,
                model_ms=_ms(entry.started_at, batch.at),
            )
        )

    def spent(self, batch: Batch, kind: str, usage: Usage | None) -> None:
        if usage is None or not (usage.prompt_tokens or usage.output_tokens):
            return
        self.usages.append(usage)
        self.other.append(OtherReceipt(n=batch.n, kind=kind, tokens=name_tokens(usage)))

    def receipt(self) -> TurnReceipt:
        rounds = [
            RoundReceipt(
                **{
                    **{name: getattr(one, name) for name in one.__struct_fields__},
                    "tools_ms": self.tools_ms.get(one.iteration, 0),
                }
            )
            for one in self.rounds
        ]
        return TurnReceipt(
            turn_id=self.turn,
            started_at=self.started_at,
            elapsed_ms=self.elapsed_ms,
            model_ms=sum(one.model_ms for one in rounds),
            tools_ms=sum(self.tools_ms.values()),
            tokens=name_tokens(sum_usages([Usage(), *self.usages])),
            usd=round(sum(one.usd or 0.0 for one in rounds), 8),
            priced=not self.other and all(one.usd is not None for one in rounds),
            rounds=tuple(rounds),
            other=tuple(self.other),
        )


def make_receipts(batches: Iterable[Batch]) -> Receipts:
    """Return the receipts of a whole log."""
    bills: list[_Bill] = []
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Opened():
                    bills.append(_Bill(entry.turn, entry.at))
                case Decided():
                    bills[-1].decided(batch, entry)
                case Closed():
                    bills[-1].elapsed_ms = entry.elapsed_ms
                case Resulted():
                    tools = bills[-1].tools_ms
                    tools[entry.iteration] = tools.get(entry.iteration, 0) + entry.duration_ms
                    bills[-1].spent(batch, "tool", entry.usage)
                case Titled() | Compacted() | Contributed() | Reopened():
                    bills[-1].spent(batch, OTHERS[type(entry)], entry.usage)
                case _:
                    pass
    turns = [bill.receipt() for bill in bills]
    return Receipts(
        turns=tuple(turns),
        tokens=name_tokens(sum_usages([Usage(), *(one for bill in bills for one in bill.usages)])),
        usd=round(sum(turn.usd for turn in turns), 8),
        priced=all(turn.priced for turn in turns),
    )


def _ms(start: str, end: str) -> int:
    return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000)
