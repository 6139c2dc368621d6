"""Accounts, their rates and the costs of invocations in this process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock

from stepline.errors import InputError
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import Account, Posting
from stepline.model.tenancy.consumption import InvocationCost
from stepline.model.tenancy.limits import NANOS_PER_USD, Limits, Scope, Used
from stepline.model.tenancy.request_rates import RequestKind
from stepline.ports.tenancy.accounts import GivenLimits, Posted


class MemoryAccounts:
    """Counters by account and attribute name, as in the table."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._limits: dict[str, GivenLimits] = {}
        self._accounts: dict[str, Account] = {}
        self.counters: dict[str, Counter[str]] = {}

    def limits(self, scopes: Sequence[Scope]) -> tuple[GivenLimits, ...]:
        with self._lock:
            return tuple(self._limits.get(scope.key(), GivenLimits()) for scope in scopes)

    def set_limits(self, scope: Scope, limits: Limits, *, version: int, by: str, at: str) -> int:
        with self._lock:
            if self._limits.get(scope.key(), GivenLimits()).version != version:
                raise InputError("the limits were changed meanwhile", code="limits_changed")
            self._limits[scope.key()] = GivenLimits(limits=limits, version=version + 1, by=by, at=at)
            return version + 1

    def used(self, scopes: Sequence[Scope], at: datetime) -> tuple[Used, ...]:
        now = at.astimezone(UTC)
        month, day = f"{now:%Y-%m}", f"{now:%d}"
        with self._lock:
            return tuple(self._used(scope, month, day, now.timestamp()) for scope in scopes)

    def _used(self, scope: Scope, month: str, day: str, now_s: float) -> Used:
        counted = self.counters.get(scope.key(), Counter())
        ends = _ends(counted)
        held_tokens, held_nanos = counted[f"{month} held_tokens"], counted[f"{month} held_nanos"]
        return Used(
            tokens_day=max(0, counted[f"{month} {day} tokens"] - held_tokens),
            tokens_month=counted[f"{month} tokens"] - held_tokens,
            usd_day=max(0, counted[f"{month} {day} nanos"] - held_nanos) / NANOS_PER_USD,
            usd_month=(counted[f"{month} nanos"] - held_nanos) / NANOS_PER_USD,
            storage_bytes=counted["stored_bytes"] - sum(ends.values()),
            held_tokens=held_tokens,
            held_usd=held_nanos / NANOS_PER_USD,
            held_bytes=sum(held for until_s, held in ends.items() if now_s < until_s),
        )

    def account(self, lane: Lane) -> Account:
        with self._lock:
            return self._accounts.get(lane.key(), Account())

    def post(self, lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
        with self._lock:
            if self._accounts.get(lane.key(), Account()).version != account.version - 1:
                return "moved"
            if not all(self._has_room(posting) for posting in postings):
                return "full"
            self._accounts[lane.key()] = account
            for posting in postings:
                self._add(posting)
            return "posted"

    def _has_room(self, posting: Posting) -> bool:
        counted, month, day = self.counters.get(posting.scope.key(), Counter()), posting.month, posting.day
        bounds = (
            (f"{month} tokens", posting.most_tokens),
            (f"{month} nanos", posting.most_nanos),
            (f"{month} {day} tokens", posting.most_day_tokens),
            (f"{month} {day} nanos", posting.most_day_nanos),
            ("stored_bytes", posting.most_stored_bytes),
        )
        return all(most is None or counted[name] <= most for name, most in bounds) and all(
            counted[_end(until_s)] + change >= 0 for until_s, change in posting.ends.items()
        )

    def _add(self, posting: Posting) -> None:
        counted, month = self.counters.setdefault(posting.scope.key(), Counter()), posting.month
        counted["stored_bytes"] += posting.stored_bytes
        for until_s, change in posting.ends.items():
            counted[_end(until_s)] += change
        counted[f"{month} tokens"] += posting.amount.tokens
        counted[f"{month} nanos"] += posting.amount.nanos
        counted[f"{month} held_tokens"] += posting.held.tokens
        counted[f"{month} held_nanos"] += posting.held.nanos
        for day, amount in posting.days.items():
            counted[f"{month} {day} tokens"] += amount.tokens
            counted[f"{month} {day} nanos"] += amount.nanos

    def end_holds(self, scopes: Sequence[Scope], at: datetime) -> None:
        with self._lock:
            for scope in scopes:
                counted = self.counters.get(scope.key(), Counter())
                for until_s, held in _ends(counted).items():
                    if until_s <= at.timestamp():
                        counted["stored_bytes"] -= held
                        del counted[_end(until_s)]

    def forget(self, scope: Scope) -> None:
        with self._lock:
            self._limits.pop(scope.key(), None)
            self.counters.pop(scope.key(), None)

    def erase(self, lane: Lane) -> int:
        """Remove the charges of a conversation; return the number of rows."""
        with self._lock:
            return int(self._accounts.pop(lane.key(), None) is not None)


_HELD = "held until "


def _end(until_s: int) -> str:
    return f"{_HELD}{until_s}"


def _ends(counted: Counter[str]) -> dict[int, int]:
    """Return the bytes that uploads hold, by the second when each hold ends."""
    return {int(name.removeprefix(_HELD)): held for name, held in counted.items() if name.startswith(_HELD)}


class MemoryRate:
    """A counter for each account and minute."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[tuple[Scope, int, str]] = Counter()

    def count(self, scope: Scope, minute: int) -> int:
        return self._count(scope, minute, "")

    def tally(self, scope: Scope, minute: int, kind: RequestKind) -> int:
        return self._count(scope, minute, kind)

    def _count(self, scope: Scope, minute: int, kind: str) -> int:
        with self._lock:
            self._counts[scope, minute, kind] += 1
            return self._counts[scope, minute, kind]


class MemoryCosts:
    """A list for each lane; nothing here is billed, so a row does not count its own write."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: defaultdict[Lane, list[InvocationCost]] = defaultdict(list)

    def put(self, lane: Lane, cost: InvocationCost) -> None:
        with self._lock:
            self._rows[lane].append(cost)

    def of(self, lane: Lane, *, turn: str | None = None) -> list[InvocationCost]:
        with self._lock:
            found = [row for row in self._rows[lane] if turn is None or row.turn == turn]
        return sorted(found, key=lambda row: row.at)

    def erase(self, lane: Lane) -> int:
        """Remove the rows of a conversation; return their number."""
        with self._lock:
            return len(self._rows.pop(lane, ()))
