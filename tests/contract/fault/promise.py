"""What was promised, whatever went wrong: each promise looks at a simulation at rest and names what is broken."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stepline.events.derive import derive
from stepline.log.spill import hydrate
from stepline.log.timeline_cache import segment_key
from stepline.model.batch import Batch
from stepline.model.block import Body
from stepline.model.entry import (
    Closed,
    Compacted,
    Compacting,
    Decided,
    Inbound,
)
from tests.contract.fault.client import Client
from tests.contract.fault.simulation import LANE, STRIKE, Simulation
from tests.support.generation import PROGRAM
from tests.support.log_invariant import chain, effects, homes, turns


def broken(simulation: Simulation, sent: Iterable[str], clients: Sequence[Client]) -> list[str]:
    """Return what is broken, sorted; nothing for a run that kept every promise."""
    batches = simulation.batches()
    found = [
        *_rest(simulation),
        *_listing(simulation, batches),
        *chain(batches),
        *turns(batches),
        *effects(simulation.effects, batches, recorded=(STRIKE, PROGRAM)),
        *_messages(batches, sent),
        *_compactions(batches),
        *_bodies(simulation, batches),
        *_tasks(simulation),
        *[problem for client in clients for problem in _screen(simulation, batches, client)],
    ]
    return sorted(set(found))


def _rest(simulation: Simulation) -> Iterator[str]:
    if simulation.state.status != "idle":
        yield "a turn is stuck"
    if simulation.log.open_lanes(before="9999"):
        yield "an idle lane is marked open"


def _listing(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """Whoever lists conversations sees how the newest turn ended."""
    ends = [batch for batch in batches for entry in batch.entries if isinstance(entry, Closed)]
    rows = simulation.log.conversations(LANE.tenant, LANE.project, simulation.state.owner)
    if ends and (not rows or rows[0].applied_n < ends[-1].n):
        yield "the listing is behind"


def _messages(batches: Sequence[Batch], sent: Iterable[str]) -> Iterator[str]:
    """What was sent is admitted once, and comes to one place: a turn that saw it, its sender, or it is kept."""
    admitted = Counter(
        entry.message_id for batch in batches for entry in batch.entries if isinstance(entry, Inbound)
    )
    if any(count > 1 for count in admitted.values()):
        yield "a message admitted twice"
    if any(message_id not in admitted for message_id in sent):
        yield "a message lost"
    for event, places in homes(batches):
        if len(places) > 1:
            yield f"an event in {len(places)} places"
        if not places and event.event_class != "quiet":
            yield f"a {event.event_class} event in no place"


def _compactions(batches: Sequence[Batch]) -> Iterator[str]:
    begun = Counter(e.id for b in batches for e in b.entries if isinstance(e, Compacting))
    over = Counter(e.id for b in batches for e in b.entries if isinstance(e, Compacted))
    if any(begun[name] > 1 or over[name] != 1 for name in begun | over):
        yield "a compaction that has no end, or two"


def _bodies(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """Every body that the log names is there, and is what the log says."""
    for batch in batches:
        if any(spill.key not in simulation.artifacts.objects for spill in batch.spilled):
            yield "a spilled body that is not there"
            continue
        whole = hydrate(simulation.artifacts, batch)
        for body in _bodies_in(whole.entries):
            stored = simulation.artifacts.objects.get(body.key)
            if stored is None or hashlib.sha256(stored).hexdigest() != body.sha256:
                yield "a file that is not what the log says"
    segments = {batch.state.segment for batch in batches} - {0}
    if any(segment_key(LANE, n) not in simulation.artifacts.objects for n in segments):
        yield "a segment that is named and not there"


def _bodies_in(value: Any) -> Iterator[Body]:
    if isinstance(value, Body):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _bodies_in(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _bodies_in(item)


def _tasks(simulation: Simulation) -> Iterator[str]:
    if simulation.tasks.secrets or simulation.tasks.rows:
        yield "something of a handover is left"
    if simulation.tasks.waiting:
        yield "a state waits for ever"
    if any(not task.reason for task in simulation.tasks.tasks.values()):
        yield "a task still runs"


def _screen(simulation: Simulation, batches: Sequence[Batch], client: Client) -> Iterator[str]:
    """A client shows what the log brings about, once and in order, and the answers that stand in it."""
    told = [
        (batch.n, tuple(simulation.ports.outward.sift(derive(batch)).events))
        for batch in batches
        if derive(batch)
    ]
    if [n for n, _ in client.applied] != [n for n, _ in told]:
        yield f"{client.name} missed or repeated events"
    elif client.applied != told:
        yield f"{client.name} heard what the log does not say"
    ends = [e for batch in batches for e in batch.entries if isinstance(e, Closed)]
    if [(end.turn_id, end.answer) for end in client.ended] != [(end.turn, end.answer) for end in ends]:
        yield f"{client.name} shows other answers than the recorded ones"
    if client.refused:
        yield f"{client.name} was refused: {', '.join(sorted(set(client.refused)))}"
    if client.state.open != (simulation.state.status == "open"):
        yield f"{client.name} does not know whether a turn is open"
    for decided in (e for batch in batches for e in batch.entries if isinstance(e, Decided)):
        shown = client.shown.get((decided.claim, "answer.0"), "")
        if decided.claim not in simulation.shared and not decided.answer.startswith(shown):
            yield f"{client.name} shows a text that was not decided"
