"""Journal: append to and read one lane's log during one invocation.

A refused or unanswered put never ends a commit: the journal reads the batch stored at n, recognises its own by
the nonce, and otherwise plans again from the newer tail. Planning must therefore be cheap and free of side
effects: no sampling, no searching, no billing.

A fork's own log begins with batch n + 1, whose first entry is `forked`; the batches before it are in the log of its
origin. A reader meets that batch where it expects an older one, and only then reads the origin: the read of any other
conversation is one call.
Source: docs/concepts/log.md#append, docs/concepts/log.md#forks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from msgspec.structs import replace

from stepline.errors import BusyError, NotFoundError, SteplineError, UnknownOutcome
from stepline.events.derive import newest_event
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_alive, check_imported
from stepline.log.spill import hydrate, spill
from stepline.log.transition import count_entries, epoch_ms, spent, stored
from stepline.metrics import LOG_CONFLICTS
from stepline.model.batch import EMPTY, FORK_FORMAT, Batch, State, forked_from
from stepline.model.entry import Entry, Forked
from stepline.model.ids import Lane, utc
from stepline.model.usage import ModelCall, call_ids, estimate_tokens, join_calls
from stepline.model.wire.event import CONTROL_LANE, is_report_lane
from stepline.ports.clock import Clock
from stepline.ports.log import Duplicate, Log, Occupied, Put, Slots, Written

T = TypeVar("T")

_PAUSE_FIRST_S = 0.01
_PAUSE_MOST_S = 0.64

TAIL_MAX_AGE_S: Final = 3600
"""The age from which a tail is read again before a put: after an erasure its number may look free."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The entries and state that a step wants to put next, planned against one tail."""

    entries: tuple[Entry, ...]
    state: State
    message_id: str = ""
    marks_open: bool = False
    slots: Slots | None = None
    calls: tuple[ModelCall, ...] = ()
    """Model calls that another process has made and that this batch records, besides those of this one."""


class Journal:
    """Read and append batches of one lane under one nonce."""

    def __init__(self, ports: Ports, lane: Lane, step: str) -> None:
        self.by = secrets.token_hex(8)
        self._begun = _times(ports.clock)
        self.lane = lane
        self.ports = ports
        self._step = step
        self._adopted: tuple[ModelCall, ...] = ()
        self._noted: dict[int, list[ModelCall]] | None = None
        self._looked = -1
        """The calls that the log has are known up to this batch; -1 before the first commit."""
        self._known: frozenset[str] = frozenset()
        """The ids of the calls that are known to be in the log."""

    def tail(self, *, consistent: bool) -> Batch:
        """Return the newest batch, or the empty one before the first."""
        return self.ports.log.tail(self.lane, consistent=consistent) or EMPTY

    def since(self, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        """Return the batches after n, hydrated. Raises NotFoundError `conversation_deleted` if older ones are erased."""
        found = read_since(self.ports.log, self.lane, n, upto=upto, consistent=consistent)
        if found and found[0].n > max(n, 0) + 1:
            raise NotFoundError("the conversation was deleted", code=DELETED)
        return [hydrate(self.ports.artifacts, batch) for batch in found]

    def get(self, n: int) -> Batch | None:
        """Return batch n, hydrated."""
        found = read_batch(self.ports.log, self.lane, n)
        return hydrate(self.ports.artifacts, found) if found else None

    def commit(
        self,
        plan: Callable[[Batch], Draft | T],
        *,
        tail: Batch | None = None,
        on_duplicate: Callable[[int], T] | None = None,
    ) -> Batch | T:
        """Append the draft of `plan`, planning again from each newer tail; return the batch or the conclusion.

        A plan that returns anything but a draft concludes without a put, which requires a strong read. Pass
        `tail` if it was read already.

        Raises:
            BusyError: the lane was contended `append_tries` times in a row.
            NotFoundError: `conversation_deleted`, nothing may be put any more.
            InputError: `import_unfinished`, only the end may be put now.
        """
        read = self._begun if tail else _times(self.ports.clock)
        found, fresh = tail or self.tail(consistent=False), False
        for attempt in range(self.ports.policy.append_tries):
            if _is_aged(read, self.ports.clock):
                found, fresh = self.tail(consistent=True), True
            try:
                planned: Draft | T | None = plan(found)
            except SteplineError:
                if fresh:
                    raise
                planned = None
            if isinstance(planned, Draft):
                check_alive(found.state)
                check_imported(found.state, following=planned.state)
                put, batch = self._put(found, planned)
                if isinstance(put, Written):
                    return batch
                if isinstance(put, Duplicate) and on_duplicate is not None:
                    return on_duplicate(put.n)
                self.ports.meter.count(LOG_CONFLICTS)
                if attempt:
                    self.ports.clock.pause(_backoff_s(attempt))
            elif fresh:
                return cast("T", planned)
            read, found, fresh = _times(self.ports.clock), self.tail(consistent=True), True
        raise BusyError("the conversation is contended", tries=self.ports.policy.append_tries)

    def take_over(self, claim: int) -> None:
        """Let the next batch record the calls that were made under a claim and that no batch has.

        The provider's count of a call's prompt is exact. The output up to the death of its process is estimated from
        the stored text.
        """
        noted = self.ports.deltas.notes(self.lane, claim).get(claim)
        if noted:
            self.adopt(self._measured(claim, noted), since=claim)

    def take_over_all(
        self, tail: Batch, since: int, batches: Sequence[Batch], *, but: Collection[int] = ()
    ) -> None:
        """Take over all claims from batch `since` on, except `but`; `batches` are those after it, up to `tail`.

        A process that was taken over may have called the model once more. The notes are read once.
        """
        if self._noted is None:
            self._noted = self.ports.deltas.notes(self.lane, since)
        if self._noted:  # most turns have some; `batches` avoid a second read of the log
            self._known |= call_ids(call for batch in batches for call in batch.calls)
            self._looked = max(self._looked, tail.n)
        adopted = call_ids(self._adopted)
        for claim, noted in self._noted.items():
            others = [call for call in noted if call.id not in adopted]
            if claim not in but and (lost := self._without_recorded(others, tail)):
                self._adopted += tuple(self._measured(claim, lost))

    def _measured(self, claim: int, noted: Sequence[ModelCall]) -> list[ModelCall]:
        """Return the noted calls of a claim; the output of an interrupted one is estimated from the stored text."""
        cut = max((call for call in noted if call.usage.estimated), key=_prompt_tokens, default=None)
        if cut is None:
            return list(noted)
        stored = self.ports.deltas.since(self.lane, claim)
        written_by_model = (
            one for one in stored if one.name != CONTROL_LANE and not is_report_lane(one.name)
        )
        text = "".join(delta.text for delta in written_by_model)
        written = max(cut.usage.output_tokens, estimate_tokens(text))
        used = replace(cut.usage, output_tokens=written)
        priced = self.ports.policy.prices.call(
            cut.role, cut.model, used, utc(self.ports.clock.now()), id=cut.id
        )
        return [priced if call is cut else call for call in noted]

    def adopt(self, calls: Iterable[ModelCall], *, since: int) -> None:
        """Let the next batch record calls of a process that may be dead, unless a batch after `since` has them."""
        self._adopted = tuple(calls)
        self._looked = since if self._looked < 0 else min(self._looked, since)

    def unrecorded(self, tail: Batch) -> tuple[ModelCall, ...]:
        """Return the model calls that the batch after `tail` will record."""
        return self._without_recorded((*self._adopted, *self.ports.ledger.calls), tail)

    def _without_recorded(self, calls: Sequence[ModelCall], tail: Batch) -> tuple[ModelCall, ...]:
        """Return the calls that the log up to `tail` does not have.

        Another process may have recorded a call of this one, which seemed dead, and a put with an unknown outcome may
        be stored.
        """
        if self._looked < 0:
            self._looked = tail.n
        if calls and tail.n > self._looked:
            between = self.ports.log.since(self.lane, self._looked, upto=tail.n, consistent=True)
            self._known |= call_ids(call for batch in between for call in batch.calls)
            self._looked = tail.n
        # A call of a program is noted, and reported by its run, too.
        once = {call.id or at: call for at, call in reversed(list(enumerate(calls)))}
        return tuple(call for call in calls if call.id not in self._known and once.get(call.id, call) is call)

    def _put(self, tail: Batch, draft: Draft) -> tuple[Put, Batch]:
        own = self.ports.ledger.take_calls()
        try:
            calls = self._without_recorded((*draft.calls, *self._adopted, *own), tail)
            put, batch = self._put_with(tail, draft, calls)
        except BaseException:
            self.ports.ledger.give_back(own)
            raise
        if isinstance(put, Written):
            known = call_ids(batch.calls)  # of an earlier draft, if that was stored
            self.ports.ledger.give_back(call for call in calls if call in own and call.id not in known)
            self._adopted, self._looked, self._known = (), batch.n, self._known | known
        else:
            self.ports.ledger.give_back(own)
        return put, batch

    def _put_with(self, tail: Batch, draft: Draft, calls: tuple[ModelCall, ...]) -> tuple[Put, Batch]:
        at = utc(self.ports.clock.now())
        state = replace(
            stored(spent(draft.state, calls), draft.entries),
            prev=newest_event(tail),
            tally=count_entries(draft.state.tally, draft.entries, at),
            begun_ms=draft.state.begun_ms if tail.n else epoch_ms(at),
        )
        batch = Batch(
            n=tail.n + 1,
            by=self.by,
            at=at,
            step=self._step,
            entries=draft.entries,
            state=state,
            calls=join_calls(calls),
            v=FORK_FORMAT if state.forked else 1,
        )
        small = spill(self.ports.artifacts, self.lane, batch)
        try:
            put = self.ports.log.put(
                self.lane,
                small,
                message_id=draft.message_id,
                marks_open=draft.marks_open,
                slots=draft.slots,
            )
        except UnknownOutcome:
            put = self._read_outcome(batch.n, draft.message_id)
        if isinstance(put, Occupied) and is_own(put.batch, self.by):
            # The stored batch counts: it may be an earlier draft of this commit that landed late.
            return Written(), hydrate(self.ports.artifacts, put.batch)
        return put, batch

    def _read_outcome(self, n: int, message_id: str) -> Put:
        found = self.ports.log.get(self.lane, n, consistent=True)
        if found is not None:
            return Occupied(batch=found)
        admitted = self.ports.log.admitted(self.lane, message_id) if message_id else None
        return Duplicate(n=admitted) if admitted else Occupied(batch=EMPTY)


def read_since(
    log: Log, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False
) -> list[Batch]:
    """Return the batches of a conversation after n (up to and including `upto`), those of its origins included."""
    own = log.since(lane, n, upto=upto, consistent=consistent)
    if (own and own[0].n <= max(n, 0) + 1) or (not own and (upto is None or upto <= n)):
        return own
    first = forked_from(own[0]) if own else fork_of(log, lane)
    if first is None or first.n <= n:
        return own
    end = first.n if upto is None else min(first.n, upto)
    older = read_since(log, origin_lane(lane, first), n, upto=end, consistent=True)
    return [*older, *own]


def read_batch(log: Log, lane: Lane, n: int) -> Batch | None:
    """Return batch n of a conversation, by a strong read, from the log that has it."""
    found = log.get(lane, n, consistent=True)
    if found is not None or n < 1:
        return found
    first = fork_of(log, lane)
    return read_batch(log, origin_lane(lane, first), n) if first and n <= first.n else None


def lane_of(log: Log, lane: Lane, n: int) -> Lane:
    """Return the lane whose log has batch n of a conversation; objects that the batch made are stored under it."""
    first = fork_of(log, lane)
    return lane_of(log, origin_lane(lane, first), n) if first and n <= first.n else lane


def fork_of(log: Log, lane: Lane) -> Forked | None:
    """Return the entry with which a fork begins, by strong reads; None for a conversation that is no fork."""
    tail = log.tail(lane, consistent=True)
    if tail is None or not tail.state.forked:
        return None
    first = log.get(lane, tail.state.forked, consistent=True)
    return forked_from(first) if first else None


def origin_lane(lane: Lane, first: Forked) -> Lane:
    """Return the lane of a fork's origin."""
    return replace(lane, conversation=first.origin)


def _prompt_tokens(call: ModelCall) -> int:
    return call.usage.prompt_tokens


def is_own(batch: Batch, by: str) -> bool:
    """Return True if the batch found at our number is our own, from a put whose answer was lost."""
    return batch.by == by


def _times(clock: Clock) -> tuple[float, float]:
    """Return the time by both clocks: the monotonic one may stop while its machine is suspended."""
    return clock.monotonic_s(), clock.now().timestamp()


def _is_aged(read: tuple[float, float], clock: Clock) -> bool:
    return max(now - then for now, then in zip(_times(clock), read, strict=True)) > TAIL_MAX_AGE_S


def _backoff_s(attempt: int) -> float:
    return secrets.SystemRandom().uniform(0, min(_PAUSE_MOST_S, _PAUSE_FIRST_S * 2**attempt))
