"""States of an imported log: each follows from the one before by the transitions that wrote the original, never from a document."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepline.events.derive import newest_event
from stepline.log.transition import (
    closed,
    count_entries,
    decided,
    declined,
    interrupted,
    next_round,
    opened,
    rejected,
    resulted,
    steered,
    taken_over,
    titled,
)
from stepline.model.batch import Batch, State
from stepline.model.entry import (
    Closed,
    Decided,
    Deferred,
    Entry,
    Opened,
    Resulted,
    Steered,
    TakenOver,
    Titled,
)


def follow_state(
    tail: Batch, n: int, entries: Sequence[Entry], *, at: str, rendered: int, whole: bool
) -> State:
    """Return the state after batch `n`; `rendered` is the newest batch that its decision had seen.

    `whole` ends the import; until then the state says that it goes on.
    """
    before = tail.state
    state = replace(before, importing=0 if whole else 1)
    skips = any(isinstance(entry, Steered) and entry.phase == "tools" for entry in entries)
    skipped = False
    for entry in entries:
        match entry:
            case Resulted() if skips:  # what a steer left of a round's actions is over at once
                state = state if skipped else next_round(state, n)
                skipped = True
            case _:
                state = _after(state, n, entry, rendered)
    tally = count_entries(state.tally, entries, at)
    return replace(state, prev=newest_event(tail), tally=tally)


def _after(state: State, n: int, entry: Entry, rendered: int) -> State:  # noqa: PLR0911 - one branch a kind of entry
    match entry:
        case Opened():
            return opened(state, n, entry.turn)
        case Decided():
            return _decided(state, n, entry, rendered)
        case Resulted():
            return resulted(state, n)
        case Deferred():
            return next_round(state, n)
        case Steered():
            return steered(state, entry.n, finalize=entry.finalize)
        case TakenOver():
            return taken_over(state, n)
        case Titled():
            return titled(state, n)
        case Closed():
            return closed(state)
        case _:
            return state


def _decided(state: State, n: int, entry: Decided, rendered: int) -> State:
    if entry.interrupted:
        return interrupted(state, n, rendered=rendered)
    if entry.declined is not None:
        return declined(state, n, rendered=rendered, fallback=entry.declined.fallback)
    if not entry.accepted:
        return rejected(state, n, rendered=rendered)
    ends = entry.action != "call_tool"
    return decided(state, n, rendered=rendered, actions=len(entry.actions), ends=ends)
