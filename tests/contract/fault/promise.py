"""What was promised, whatever went wrong: each promise looks at a simulation at rest and names what is broken."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.events.derive import derive
from stepline.inspection.receipt import complete_calls, make_receipts
from stepline.log.spill import hydrate
from stepline.log.timeline_cache import segment_key
from stepline.log.versions import save_versions
from stepline.model.batch import Batch
from stepline.model.block import Body
from stepline.model.entry import (
    Closed,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Inbound,
    Resulted,
)
from stepline.model.memory_row import MemoryScope
from stepline.ports.memory_index import MemoryQuery
from stepline.timeline.fold import Timeline
from stepline.timeline.memory_rows import turn_rows
from stepline.timeline.workspace import fold_workspace
from tests.contract.fault.account_promise import charged
from tests.contract.fault.client import Client
from tests.contract.fault.simulation import ADD, LANE, PRICES, STRIKE, Simulation, hook_effect
from tests.support.generation import PROGRAM
from tests.support.log_invariant import approvals, chain, effects, homes, requests, turns


def broken(simulation: Simulation, sent: Iterable[str], clients: Sequence[Client]) -> list[str]:
    """Return what is broken, sorted; nothing for a run that kept every promise."""
    batches = simulation.batches()
    found = [
        *_rest(simulation),
        *_listing(simulation, batches),
        *_memory(simulation, batches),
        *chain(batches),
        *turns(batches),
        *requests(simulation.artifacts, LANE, batches),
        *effects(simulation.effects, batches, recorded=(STRIKE, PROGRAM, ADD)),
        *approvals(simulation.effects, batches, asks=simulation.asks),
        *_hooks(simulation, batches),
        *_messages(batches, sent),
        *_compactions(batches),
        *_bodies(simulation, batches),
        *_projects(batches),
        *left_of_tasks(simulation),
        *_spending(simulation, batches),
        *charged(simulation),
        *_versions(simulation, batches),
        *[problem for client in clients for problem in _screen(simulation, batches, client)],
        *[problem for client in clients for problem in _reports(client)],
    ]
    return sorted(set(found))


def _rest(simulation: Simulation) -> Iterator[str]:
    if simulation.state.status != "idle":
        yield "a turn is stuck"
    if simulation.log.open_lanes(before="9999"):
        yield "an idle lane is marked open"


def _listing(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """A list of conversations shows the end of the newest turn."""
    ends = [batch for batch in batches for entry in batch.entries if isinstance(entry, Closed)]
    rows = simulation.log.conversations(LANE.tenant, LANE.project, simulation.state.owner)
    row = next((row for row in rows if row.lane == LANE), None)
    if ends and (row is None or row.applied_n < ends[-1].n):
        yield "the listing is out of date"


def _memory(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """An index has the rows of every ended turn, as the log would give them again."""
    timeline = Timeline.empty(LANE).extended(batches)
    scope = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=simulation.state.owner)
    expected = MemoryMemoryIndex()
    for entry in (entry for batch in batches for entry in batch.entries if isinstance(entry, Closed)):
        expected.add(scope, turn_rows(timeline, entry.turn))
    query = MemoryQuery(scope=scope, text="the a and to of message tool done ok", limit=1_000)
    rows, wanted = ({hit.row for hit in index.search(query).hits} for index in (simulation.memory, expected))
    if wanted - rows:
        yield "a turn that ended is not remembered"


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


def _projects(batches: Sequence[Batch]) -> Iterator[str]:
    """A turn that checked a project out has all of it, as it was or patched, and a turn that did not has none."""
    done = [entry for batch in batches for entry in batch.entries if isinstance(entry, Resulted)]
    taken = [entry for entry in done if (entry.tool_id, entry.status) == ("react.checkout", "ok")]
    if len(taken) > 1:
        yield "a project checked out twice"
    timeline = Timeline.empty(LANE).extended(batches)
    projects = [
        {file.path.partition("/")[2]: file.sha256 for file in fold_workspace(timeline, turn)}
        for turn in timeline.turns
    ]
    changed = any((entry.tool_id, entry.status) == ("react.patch", "ok") for entry in done)
    for entry in taken:
        first, last = projects[0], projects[-1]
        differ = {path for path in first | last if first.get(path) != last.get(path)}
        if differ != ({"files/a.md"} if changed else set()):
            yield f"a part of a project: {entry.call_id}"


def _hooks(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """A hook runs once, its end is recorded once, and what it adds is there unless it is not known to have run."""
    ends = [e for batch in batches for e in batch.entries if isinstance(e, Contributed) and e.hook]
    expected = Counter(hook_effect(end.hook or "", end.turn, end.iteration) for end in ends)
    if any(count > 1 for count in expected.values()):
        yield "a hook that ended twice"
    done = {name: count for name, count in simulation.effects.items() if "/" in name}
    if any(count > 1 for count in done.values()):
        yield "a hook that ran twice"
    unknown = {hook_effect(e.hook or "", e.turn, e.iteration) for e in ends if e.status == "unverified"}
    if expected.keys() - unknown - done.keys():
        yield "the end of a hook that did not run"
    decided = {(b.state.turn, e.iteration) for b in batches for e in b.entries if isinstance(e, Decided)}
    if simulation.hooks and any(hook_effect("before_round", *at) not in expected for at in decided):
        yield "a round without its hook"


def _spending(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """Receipts have every call that the model has counted, with its prompt as it was counted.

    A call is in the log once, and the state has the sum of them; a call that is only noted came after the end of its turn.
    A call whose process died before it could note it is recorded nowhere.
    """
    logged, state = [call for batch in batches for call in batch.calls], batches[-1].state
    noted = simulation.ports.deltas.notes(LANE, since=0)
    whole, unheard = complete_calls(batches, noted)
    beside = [call for more in unheard.values() for call in more]
    calls = [*(call for batch in whole for call in batch.calls), *beside]
    made = [stream.completion().usage for stream in simulation.streams]
    made = [usage for usage in made if usage.prompt_tokens]  # what was refused has used nothing
    if beside and not simulation.outlived:
        yield "a noted call that no batch has"
    if max(simulation.program_streams.values(), default=1) > 1:
        yield "a program's model call made twice"
    if max(Counter(call.id for call in logged).values(), default=1) > 1:
        yield "a model call recorded twice"
    if len(made) - len(calls) not in range(simulation.unnoted + 1):
        yield "a model call that is not recorded"
    counted = Counter(usage.prompt_tokens for usage in made)
    if Counter(call.usage.prompt_tokens for call in calls) - counted:
        yield "a prompt that the model has not counted so"
    if Counter(call.usage for call in calls if not call.usage.estimated) - Counter(made):
        yield "an answer that the model has not counted so"
    read, written = (
        sum(call.usage.prompt_tokens for call in logged),
        sum(call.usage.output_tokens for call in logged),
    )
    spent = (read, written, sum(call.nanos for call in logged))
    if spent != (state.input_tokens, state.output_tokens, state.spent_nanos):
        yield "a state that says what was not spent"
    if round(make_receipts(batches, prices=PRICES, noted=noted).usd * 1e9) != sum(
        call.nanos for call in calls
    ):
        yield "receipts that do not add up"


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


def _versions(simulation: Simulation, batches: Sequence[Batch]) -> Iterator[str]:
    """The git history is that of the log, made anew: no turn is missing, and nothing is there twice."""
    found = {key: body for key, body in simulation.artifacts.objects.items() if key.startswith("git/")}
    again = MemoryArtifacts()
    again.objects = {key: body for key, body in simulation.artifacts.objects.items() if key not in found}
    if simulation.ports.policy.workspace == "git":
        whole = [hydrate(simulation.artifacts, batch) for batch in batches]
        save_versions(again, Timeline.empty(LANE).extended(whole))
    expected = {key: body for key, body in again.objects.items() if key.startswith("git/")}
    if expected.keys() - found.keys():
        yield "a turn is not in the history"
    if any(found[key] != expected.get(key) for key in found):
        yield "a history that is not what the log says"


def left_of_tasks(simulation: Simulation) -> Iterator[str]:
    """Nothing of a handover outlives its run."""
    if simulation.tasks.secrets or simulation.tasks.rows:
        yield "something of a handover is left"
    if simulation.tasks.waiting:
        yield "a state waits for ever"
    if any(not task.reason for task in simulation.tasks.tasks.values()):
        yield "a task still runs"


def _screen(simulation: Simulation, batches: Sequence[Batch], client: Client) -> Iterator[str]:
    """A client shows the events of the log, once and in order, and its answers."""
    expected = [
        (batch.n, tuple(simulation.ports.outward.sift(derive(batch, LANE)).events))
        for batch in batches
        if derive(batch)
    ]
    if [n for n, _ in client.applied] != [n for n, _ in expected]:
        yield f"{client.name} missed or repeated events"
    elif client.applied != expected:
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


def _reports(client: Client) -> Iterator[str]:
    """A client shows the reports of an attempt once, in order, from the first on, and of no other attempt among them."""
    for steps in client.reported.values():
        run = steps[0][0]
        if steps != [(run, done) for done in range(1, len(steps) + 1)]:
            yield f"{client.name} missed, repeated or mixed reports"
    runs = Counter(steps[0][0] for steps in client.reported.values())
    if any(count > 1 for count in runs.values()):
        yield f"{client.name} shows the reports of a run twice"
