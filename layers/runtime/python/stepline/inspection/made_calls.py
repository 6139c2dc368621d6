"""Calls with lasting effects that a conversation made after a point: a fork that begins there does not undo them.

A result has the effect class that its tool had when it was called. Release 0.1.0 recorded none: in its logs, a call that
was `started` was `once`, unless it was a task of a server, or a program of a tool.
Source: docs/concepts/forks.md#effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.events.derive_round import never_began
from stepline.inspection.rounds import WholeValue
from stepline.log.journal import Journal, read_since
from stepline.log.spill import hydrate
from stepline.model.batch import Batch, forked_from
from stepline.model.decision import Action, CallStatus, LastingCall, LastingEffect, digest_call
from stepline.model.entry import ApprovalAnswered, Closed, Decided, Forked, Resulted, Started
from stepline.model.visible_text import shorten_line, show_hidden
from stepline.ports.artifacts import Artifacts

CALLS_MAX: Final = 100
"""The most calls that one answer lists."""
CALLS_BYTES: Final = 16 * 1024
"""The most bytes of the calls that a fork keeps, half of a batch."""
CALL_TITLE_CHARS: Final = 80


class EffectView(WholeValue):
    """A call with an effect that a fork does not undo, settled by batch n.

    A call that is `running` has no result yet; `unverified` may have happened, or not. `title` is the beginning of its
    short parameters.
    """

    tool: str
    call: str
    effect: LastingEffect
    turn_id: str
    iteration: int
    n: int
    at: str
    status: CallStatus
    title: str


class EffectList(WholeValue):
    """The calls in the order of the log, at most 100; `more` if there are others."""

    items: tuple[EffectView, ...]
    more: bool


def show_effects(journal: Journal, begin: Batch, upto: int) -> EffectList:
    """Return the calls with lasting effects after the batch `begin`, up to batch `upto`, for clients."""
    made = made_calls(journal, begin, upto)
    names = EffectView.__struct_fields__
    items = tuple(EffectView(**{name: getattr(call, name) for name in names}) for call in made[:CALLS_MAX])
    return EffectList(items=items, more=len(made) > CALLS_MAX)


def made_calls(journal: Journal, begin: Batch, upto: int) -> list[LastingCall]:
    """Return the calls with lasting effects that the log settled after the batch `begin`, up to batch `upto`, in its order.

    A call that had started and has no result is one of them, too. So are those that a fork among these batches has from
    its origin. Raises DependencyError.
    """
    state = begin.state
    since = min(begin.n, state.decided - 1) if state.status == "open" and state.decided else begin.n
    log, lane = journal.ports.log, journal.lane
    batches = read_since(log, lane, since, upto=upto, consistent=True) if since < upto else []
    reader = _Reader(journal.ports.artifacts, begin.n)
    for batch in batches:
        reader.read(batch)
    return list(reader.made.values())


def fit_calls(made: Sequence[LastingCall]) -> tuple[LastingCall, ...]:
    """Return at most 100 calls in at most `CALLS_BYTES`, in their order; `once` ones, and later ones, have precedence."""
    ranked = sorted(range(len(made)), key=lambda at: (made[at].effect != "once", -at))
    chosen: list[int] = []
    left = CALLS_BYTES
    for at in ranked[:CALLS_MAX]:
        left -= len(msgspec.json.encode(made[at]))
        if left < 0:
            break
        chosen.append(at)
    return tuple(made[at] for at in sorted(chosen))


class _Reader:
    """Reads batches in order; `made` are the calls by id. Bodies are fetched only for the decisions of such calls."""

    def __init__(self, artifacts: Artifacts, begin: int) -> None:
        self.made: dict[str, LastingCall] = {}
        self._artifacts, self._begin = artifacts, begin
        self._asked: dict[str, Batch] = {}
        """The batch of the newest decision under "", and of each edit by the id of the call that ran instead."""
        self._started: dict[str, Started] = {}

    def read(self, batch: Batch) -> None:
        for entry in batch.entries:
            match entry:
                case Decided():
                    self._asked = {"": batch}
                case ApprovalAnswered(action=Action(call_id=instead)):
                    self._asked[instead] = batch
                case Started():
                    self._started[entry.call_id] = entry
                    self._add(batch, entry.call_id, "once", status="running", at=batch.at)
                case Resulted():
                    self._settle(batch, entry)
                case Closed():
                    self._end(batch)
                case Forked() if batch.n > self._begin:
                    self._inherit(batch)
                case _:
                    pass

    def _settle(self, batch: Batch, entry: Resulted) -> None:
        self.made.pop(entry.call_id, None)
        effect = entry.effect or self._unrecorded(entry)
        if batch.n > self._begin and effect is not None and not never_began(entry):
            self._add(batch, entry.call_id, effect, status=entry.status, at=entry.at)

    def _unrecorded(self, entry: Resulted) -> LastingEffect | None:
        """Return the effect of a call whose result names none: it was pure, or is of a release that recorded none."""
        started = self._started.get(entry.call_id)
        if started is None or started.task is not None:
            return None
        asked = self._find(entry.call_id) if entry.program else None
        return "once" if not entry.program or (asked and asked[1].code is not None) else None

    def _add(self, batch: Batch, call: str, effect: LastingEffect, *, status: CallStatus, at: str) -> None:
        if (asked := self._find(call)) is None:  # the start of a hook
            return
        iteration, action = asked
        self.made[call] = LastingCall(
            tool=action.tool_id,
            call=call,
            effect=effect,
            turn_id=batch.state.turn,
            iteration=iteration,
            n=batch.n,
            at=at,
            status=status,
            title=_title(action),
            digest=digest_call(action),
        )

    def _find(self, call: str) -> tuple[int, Action] | None:
        """Return the round and the call of an id; None for one that no decision has."""
        found = self._asked.get(call) or self._asked.get("")
        for entry in hydrate(self._artifacts, found).entries if found else ():
            match entry:
                case Decided():
                    return next(
                        ((entry.iteration, one) for one in entry.actions if one.call_id == call), None
                    )
                case ApprovalAnswered(action=Action() as action):
                    return entry.iteration, action
                case _:
                    pass
        return None

    def _inherit(self, batch: Batch) -> None:
        first = forked_from(hydrate(self._artifacts, batch))
        self.made |= {call.call: call for call in (first.effects if first else ())}

    def _end(self, batch: Batch) -> None:
        """Note that running calls will have no result: their turn has ended."""
        running = [call for call in self.made.values() if call.status == "running"]
        self.made |= {call.call: replace(call, n=batch.n, status="unverified") for call in running}


def _title(action: Action) -> str:
    """Return the short parameters of a call on one line."""
    shown = (
        f"{name}={value}" for name, value in action.params.items() if isinstance(value, str | int | float)
    )
    return shorten_line(show_hidden(", ".join(shown)[: CALL_TITLE_CHARS * 8]), CALL_TITLE_CHARS)
