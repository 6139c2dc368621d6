"""The order of a recorded turn, as it is replayed: the clock, and the events from outside, each at its place.

A message that the model had not seen when it decided arrives while the decision is put, as the record says; one that it
had seen is there before it is asked. A batch that repaired a failure is put without an effect, so the numbers stay.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.errors import DependencyError, InputError, SteplineError
from stepline.events.derive import newest_event
from stepline.log.transition import count_entries, stored
from stepline.loop.close import ERRORS, FORKED
from stepline.model.batch import Batch, State, encode_batch
from stepline.model.entry import Closed, Decided, Entry, SteeredEntry
from stepline.model.ids import Lane
from stepline.ports.log import Put, Slots, Written
from stepline.replay.recorded_turn import RecordedTurn, end_of, instant_of, is_outside, is_repair

_DERIVED: Final = frozenset(
    {"prev", "tally", "input_tokens", "output_tokens", "spent_nanos", "stored_bytes", "segment"}
)
"""The fields of a state that follow from the batch itself."""


class RecordedClock:
    """A clock that shows the recorded times, and never goes back."""

    def __init__(self, at: str) -> None:
        self._at = datetime.fromisoformat(at)

    def set(self, at: str) -> None:
        """Go on to a time."""
        self._at = max(self._at, datetime.fromisoformat(at))

    def now(self) -> datetime:
        return self._at

    def monotonic_s(self) -> float:
        return 0.0

    def pause(self, seconds: float) -> None:
        """Move on by a wait."""
        self._at += timedelta(seconds=seconds)


class Tape:
    """The position in a recorded turn. `is_off` once the replayed turn takes another course."""

    def __init__(self, turn: RecordedTurn, clock: RecordedClock) -> None:
        self._turn, self._own, self._clock = turn, turn.own, clock
        self._at = 0
        self._log: TapedLog | None = None
        self.is_off = False

    def begin(self, log: TapedLog) -> None:
        """Start at the batch that opens the turn, in a log that ends with it."""
        self._log = log
        self._advance()

    @property
    def position(self) -> int:
        """The recorded number of the batch that is put next."""
        return self._turn.opened + self._at + 1

    def next_decision(self) -> Decided | None:
        """Return the decision that the record has next; None after the last, or off the record."""
        if self.is_off:
            return None
        rest = (entry for batch in self._own[self._at :] for entry in batch.entries)
        return next((entry for entry in rest if isinstance(entry, Decided)), None)

    def ends_in_failure(self) -> bool:
        """Return True if the record closes the turn here, with an error."""
        following = None if self.is_off else self._next()
        closed = [entry for entry in following.entries if isinstance(entry, Closed)] if following else []
        return any(entry.outcome == "error" for entry in closed)

    @property
    def is_cut(self) -> bool:
        """True after the end of a turn that a fork ended: what its steps did then is in the origin's record."""
        return not self.is_off and self._at == len(self._own) and self._turn.closed.reason == FORKED

    def failure(self) -> SteplineError | None:
        """Return the error with which the record ends the turn here; None if it does not."""
        if self.is_cut:
            return InputError("a fork ended the turn here", code=FORKED)
        if not self.ends_in_failure():
            return None
        code = self._turn.closed.code
        name = next((name for name, one in ERRORS.items() if one == code), "")
        kind = next((one for one in SteplineError.__subclasses__() if one.__name__ == name), DependencyError)
        return kind(f"the turn failed in the record: {code}", code=code)

    def finish(self) -> None:
        """Set the clock to the end of the running work: a call of the model, or of a tool."""
        if (batch := self._next()) is not None:
            self._clock.set(end_of(batch))

    def resume(self) -> bool:
        """Put the recorded event for which the turn waits; return False if the record has none."""
        before = self._at
        while not self.is_off and self._at < len(self._own) and self._is_foreign(self._at):
            self._put_foreign()
        return self._at > before

    def before_put(self) -> None:
        """Put the events that arrived before the batch that is put next."""
        if not self.is_off:
            self.resume()

    def after_put(self, batch: Batch) -> None:
        """Go on after a batch of the replayed turn."""
        if self.is_off:
            return
        recorded = self._own[self._at] if self._at < len(self._own) else None
        if recorded is None or _kinds(recorded.entries) != _kinds(batch.entries):
            self.is_off = True
            return
        self._at += 1
        self._advance()

    def _advance(self) -> None:
        """Put what the next step has to see, and set the clock to its beginning."""
        while self._at < len(self._own) and self._is_foreign(self._at) and self._is_seen(self._at):
            self._put_foreign()
        if (following := self._next()) is not None:
            self._clock.set(instant_of(following))

    def _next(self) -> Batch | None:
        """Return the next batch of the turn's own steps."""
        rest = range(self._at, len(self._own))
        return next((self._own[at] for at in rest if not self._is_foreign(at)), None)

    def _is_foreign(self, at: int) -> bool:
        return is_outside(self._own[at]) or is_repair(self._own[at], self._own[:at])

    def _is_seen(self, at: int) -> bool:
        """Return True if the next step of the turn had seen a batch from outside."""
        batch, following = self._own[at], self._next()
        if following is None or is_repair(batch, self._own[:at]):
            return True
        decided = any(isinstance(entry, Decided) for entry in following.entries)
        if decided:
            return batch.n <= following.state.rendered
        steers = (e.n for e in following.entries if isinstance(e, SteeredEntry))
        return batch.n in steers or following.step.startswith("decide")

    def _put_foreign(self) -> None:
        assert self._log is not None
        batch = self._own[self._at]
        before = self._own[self._at - 1] if self._at else self._turn.before[-1]
        repairs = is_repair(batch, self._own[: self._at])
        self._at += 1
        tail = self._log.newest()
        if repairs:  # the numbers of waits decide whether the provider gets another
            state = replace(tail.state, waits=batch.state.waits)
        else:
            state = _transplant(tail.state, before.state, batch, tail.n + 1)
        state = replace(
            stored(state, batch.entries),
            prev=newest_event(tail),
            tally=count_entries(state.tally, batch.entries, batch.at),
        )
        self._log.insert(replace(batch, n=tail.n + 1, state=state))


class TapedLog(MemoryLog):
    """The log of a replayed turn, which begins with the recorded batches before it, those of a fork's origins too."""

    def __init__(self, turn: RecordedTurn, tape: Tape) -> None:
        super().__init__()
        self._lane, self._tape = turn.lane, tape
        self.batches[turn.lane.key()] = [encode_batch(batch) for batch in turn.before]

    def newest(self) -> Batch:
        """Return the newest batch."""
        found = self.tail(self._lane, consistent=True)
        assert found is not None
        return found

    def insert(self, batch: Batch) -> None:
        """Put a batch from outside the replayed turn."""
        self.batches[self._lane.key()].append(encode_batch(batch))

    def put(
        self,
        lane: Lane,
        batch: Batch,
        *,
        message_id: str = "",
        marks_open: bool = False,
        slots: Slots | None = None,
    ) -> Put:
        self._tape.before_put()
        put = super().put(lane, batch, message_id=message_id, marks_open=marks_open, slots=slots)
        if isinstance(put, Written):
            self._tape.after_put(batch)
        return put


def _kinds(entries: tuple[Entry, ...]) -> list[type[Entry]]:
    return [type(entry) for entry in entries]


def _transplant(state: State, before: State, batch: Batch, n: int) -> State:
    """Return a state with the change that a recorded batch made, as batch `n`."""
    changed: dict[str, Any] = {
        name: new
        for name in State.__struct_fields__
        if name not in _DERIVED and (new := getattr(batch.state, name)) != getattr(before, name)
    }
    return replace(state, **{name: n if new == batch.n else new for name, new in changed.items()})
