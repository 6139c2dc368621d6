"""Invariants of every log, regardless of events during its writing: each yields its violations, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from stepline.events.derive import derive, newest_event
from stepline.inspection.sent_request import name_system, read_system, render_sent
from stepline.log.spill import hydrate
from stepline.model.batch import BATCH_MAX_BYTES, STATE_MAX_BYTES, Batch, encode_batch, home_lane
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Begun,
    Closed,
    Decided,
    Deferred,
    Dropped,
    Inbound,
    Opened,
    Queued,
    Resulted,
    Started,
    SteeredEntry,
    TakenOver,
)
from stepline.model.ids import Lane
from stepline.ports.artifacts import Artifacts
from stepline.timeline.fold import Timeline


def chain(batches: Sequence[Batch]) -> Iterator[str]:
    """Numbers are dense, each batch names the previous one that clients receive, and nothing is too large.

    The owner of a conversation, and its bundle, never change.
    """
    prev = 0
    for at, batch in enumerate(batches, 1):
        if (batch.state.owner, batch.state.bundle) != (batches[0].state.owner, batches[0].state.bundle):
            yield "a conversation that changes its owner or its bundle"
        if batch.n != at:
            yield "a hole in the log"
        if batch.state.prev != prev:
            yield "a batch without its link"
        if derive(batch):
            prev = batch.n
        if newest_event(batch) != prev:
            yield "a batch that forgets the newest event"
        if len(msgspec.json.encode(batch.state)) > STATE_MAX_BYTES:
            yield "a state of more than 1 KiB"
        if len(encode_batch(batch)) > BATCH_MAX_BYTES:
            yield "a batch of more than 32 KiB"


def turns(batches: Sequence[Batch]) -> Iterator[str]:  # noqa: C901 - one branch a kind of entry
    """One end a turn and one turn at a time, one decision a round, and no writer of an older epoch commits."""
    rounds: Counter[tuple[str, int]] = Counter()
    open_turn, epoch, seen = "", 0, set()
    for batch in batches:
        claimed = batch.step.partition("/")[2]
        stale = claimed != "" and int(claimed) != epoch
        for entry in batch.entries:
            match entry:
                case Opened(turn=turn):
                    if open_turn or turn in seen:
                        yield "a turn opened in another one, or twice"
                    open_turn, epoch = turn, batch.n
                    seen.add(turn)
                case TakenOver() | ApprovalAnswered() | Begun():
                    epoch = batch.n
                case Decided(iteration=iteration):
                    rounds[batch.state.turn, iteration] += 1
                case Closed(turn=turn):
                    if turn != open_turn:
                        yield "an end of no turn, or a second one"
                    open_turn = ""
                case _:
                    pass
            if stale and isinstance(entry, Decided | Resulted | Started):
                yield "a stale owner committed"
    if any(count > 1 for count in rounds.values()):
        yield "two decisions for one round"


def requests(artifacts: Artifacts, lane: Lane, batches: Sequence[Batch]) -> Iterator[str]:
    """Every request is rendered again from the log, equal in bytes to the one that was sent.

    A request whose system part could not be stored is left out.
    """
    timelines = [Timeline.empty(lane)]
    for batch in (hydrate(artifacts, batch) for batch in batches):
        timelines.append(timelines[-1].extended([batch]))
        for entry in batch.entries:
            if not isinstance(entry, Decided):
                continue
            if entry.sent is None:
                yield "a decision that does not say what was sent"
            elif name_system(batches[: batch.n])[1]:
                system = read_system(artifacts, home_lane(lane, batches, batch.n), batches[: batch.n])
                if not render_sent(timelines[batch.state.rendered], batch, system=system).equal:
                    yield "a request that is rendered differently"


def steers(batches: Sequence[Batch]) -> Iterator[str]:  # noqa: C901 - one branch a kind of entry
    """A steer is heeded once; after a stop nothing is decided, and after a text only a few rounds are."""
    heeded: set[int] = set()
    left: int | None = None
    stopped, asked = False, 0
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case SteeredEntry(n=n, finalize=finalize):
                    if n in heeded:
                        yield "steer heeded twice"
                    heeded.add(n)
                    stopped = not finalize
                    left = None if asked > n else finalize
                case Inbound(reactive=True):
                    asked, left = batch.n, None
                case Opened() | Closed():
                    stopped, left = False, None
                case Deferred() if stopped:
                    yield "a turn continues after a stop"
                case Decided():
                    if stopped:
                        yield "decided after a stop"
                    elif left == 0:
                        yield "a steered turn goes on"
                    left = None if left is None else left - 1
                case _:
                    pass


def effects(done: Counter[str], batches: Sequence[Batch], *, recorded: Sequence[str]) -> Iterator[str]:
    """An effect happens once, or the log records it as unknown; `recorded` are the tools whose effects `done` counts."""
    results: dict[str, Resulted] = {}
    for entry in (entry for batch in batches for entry in batch.entries):
        if isinstance(entry, Resulted):
            if entry.call_id in results:
                yield "two results of one call"
            results[entry.call_id] = entry
    for call, times in done.items():
        result = results.get(call)
        if times > 1:
            marked = result is not None and result.status == "unverified"
            yield "an effect twice, marked" if marked else "an effect twice, unmarked"
        if result is not None and result.status == "error":
            yield "an effect denied that took place"
    for call, result in results.items():
        if result.tool_id in recorded and result.status == "ok" and not done[call]:
            yield "a result without its effect"


def approvals(  # noqa: C901, PLR0912 - one branch a kind of entry
    done: Counter[str], batches: Sequence[Batch], *, asks: Mapping[str, str]
) -> Iterator[str]:
    """A person is asked once about a call, nothing continues before they answer, and a denied call never runs."""
    requests: dict[int, ApprovalRequested] = {}
    allowed, asked = set(), set()
    parked = 0
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case ApprovalRequested():
                    if entry.action.call_id in asked:
                        yield "asked twice about one call"
                    asked.add(entry.action.call_id)
                    requests[batch.n] = entry
                case ApprovalAnswered():
                    if entry.n != parked or requests[entry.n].action.call_id != entry.call_id:
                        yield "an answer to nothing"
                    until = requests[entry.n].until if entry.n in requests else ""
                    if entry.verdict == "expired" and not (until and until <= entry.at):
                        yield "expired before its time"
                    runs = entry.action.call_id if entry.action else entry.call_id
                    if entry.verdict == "edited" and runs == entry.call_id:
                        yield "an edit without an id of its own"
                    allowed |= {runs} if entry.verdict in ("approved", "edited") else set()
                case TakenOver() if parked:
                    yield "a parked turn was taken over"
                case Decided() | Resulted() | Started() | Closed() if parked:
                    yield "a parked turn went on"
                case Resulted(call_id=call, tool_id=tool) if (
                    asks.get(tool) == "always" and entry.status != "error" and call not in allowed
                ):
                    yield "a call ran that was not allowed"
                case _:
                    pass
        parked = batch.state.parked
    if any(times and call in asked and call not in allowed for call, times in done.items()):
        yield "a call ran that was not allowed"


def lines(batches: Sequence[Batch]) -> Iterator[str]:
    """A queued turn has no owner until it begins, and begins once."""
    queued = 0
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Queued() if queued:
                    yield "a turn queued twice"
                case Begun(n=n) if n != queued:
                    yield "a turn that did not wait began"
                case TakenOver() if queued:
                    yield "a queued turn was taken over"
                case Decided() | Resulted() | Started() | Closed() if queued:
                    yield "a queued turn went on"
                case _:
                    pass
        queued = batch.state.queued


def homes(batches: Sequence[Batch]) -> Iterator[tuple[Inbound, set[str]]]:  # noqa: C901, PLR0912 - one branch a kind of entry
    """Yield every event with its destination: the turns that saw or heeded it, `back` if it was handed back."""
    events: dict[int, Inbound] = {}
    found: dict[int, set[str]] = {}
    during: dict[int, str] = {}
    opened: dict[str, int] = {}
    turn = ""
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Inbound():
                    events[batch.n], found[batch.n], during[batch.n] = entry, set(), turn
                case Closed():
                    turn = ""
                case Opened(turn=turn, prompts=prompts):
                    opened[turn] = batch.n
                    for n in prompts:
                        found[n].add(turn)
                case Decided():
                    seen = (n for n in events if opened[turn] < n <= batch.state.rendered)
                    for n in seen:
                        if during[n] == turn and not events[n].steers:
                            found[n].add(turn)
                case SteeredEntry(n=heeded, finalize=goes_on):
                    # A stop leaves the steers before it to the close; a text is read with those before it.
                    for n, event in events.items():
                        if event.steers and during[n] == turn and (n == heeded or (goes_on and n < heeded)):
                            found[n].add(turn)
                case Dropped(n=n):
                    found[n].add("back")
                case _:
                    pass
    yield from ((events[n], places) for n, places in found.items())
