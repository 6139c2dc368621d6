"""What must hold after every run, whatever happened in it; returns the violations by name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from stepline.events.derive import derive
from stepline.log.timeline_cache import segment_key
from stepline.loop.steer import STOPPED
from stepline.model.batch import Batch
from stepline.model.block import Body
from stepline.model.entry import (
    ApprovalAnswered,
    Closed,
    Decided,
    Inbound,
    Resulted,
)
from stepline.model.wire.live_event import RULES
from stepline.rendering.text_form import STANDARD
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import decode_segment
from tests.contract.explorer.asking import unmetered
from tests.contract.explorer.bounded import unfair
from tests.contract.explorer.client import Client, misreported
from tests.contract.explorer.decision import PROGRAM
from tests.contract.explorer.deletion import find_leftovers
from tests.contract.explorer.limited import unsettled
from tests.contract.explorer.simulation import LANE, Simulation
from tests.support.log_invariant import approvals, effects, homes, lines, steers, turns


def violations(simulation: Simulation, client: Client) -> list[str]:
    """Return what a run broke, sorted; nothing for a run that kept every promise."""
    batches = simulation.batches()
    if simulation.deletes:
        return sorted(set(_deleted(simulation, batches)))
    found = [
        *(["a worker broke"] if simulation.broke else []),
        *_settled(simulation),
        *_messages(simulation, batches),
        *turns(batches),
        *steers(batches),
        *_calls(batches),
        *effects(simulation.effects, batches, recorded=("test.once", PROGRAM)),
        *approvals(simulation.effects, batches, asks=simulation.asks),
        *simulation.visited,
        *unsettled(simulation),
        *lines(batches),
        *unfair(simulation),
        *_tasks(simulation),
        *_files(simulation, batches),
        *_segments(simulation, batches),
        *_streams(simulation, batches),
        *_screen(batches, client),
        *misreported(client),
        *unmetered(simulation, batches),
    ]
    return sorted(set(found))


def _deleted(simulation: Simulation, batches: list[Batch]) -> list[str]:
    """Return what a run broke whose conversation was deleted: nothing of it can be read any more but what was put."""
    return [
        *(["a worker broke"] if simulation.broke else []),
        *find_leftovers(simulation, LANE),
        *(["an open mark left over"] if simulation.log.open_lanes(before="9999") else []),
        *turns(batches),
        *steers(batches),
        *effects(simulation.effects, batches, recorded=("test.once", PROGRAM)),
        *_tasks(simulation),
        *("never acknowledged" for sent in simulation.sent if sent not in simulation.acked),
        *(["an execution goes on"] if simulation.running() else []),
        *lines(batches),
        *unfair(simulation),
        *simulation.visited,
    ]


def _settled(simulation: Simulation) -> list[str]:
    found = []
    if simulation.tail().state.status != "idle":
        found.append("turn stuck")
    if simulation.log.open_lanes(before="9999"):
        found.append("idle lane still marked open")
    return found


def _messages(simulation: Simulation, batches: list[Batch]) -> list[str]:
    """Each message is admitted once, and belongs to exactly one turn or is dropped on record."""
    admitted = Counter(
        entry.message_id for batch in batches for entry in batch.entries if isinstance(entry, Inbound)
    )
    found = ["message admitted twice" for count in admitted.values() if count > 1]
    found += ["message lost" for sent in simulation.sent if not admitted[sent]]
    found += ["never acknowledged" for sent in simulation.sent if sent not in simulation.acked]
    for event, places in homes(batches):
        if not places and RULES[event.event_class].unseen != "kept":
            found.append("message in no turn")
        if len(places) > 1:
            found.append("message in two turns")
    return found


def _calls(batches: list[Batch]) -> list[str]:
    """Every call of a turn that came to its end has a result."""
    asked: set[str] = set()
    found = []
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Decided(accepted=True, actions=actions):
                    asked |= {action.call_id for action in actions}
                case ApprovalAnswered(call_id=call, action=edited) if edited is not None:
                    asked = (asked - {call}) | {edited.call_id}
                case Resulted(call_id=call):
                    asked.discard(call)
                case Closed(outcome=outcome):
                    found += ["call without a result"] if asked and outcome == "completed" else []
                    asked = set()
    return found


def _tasks(simulation: Simulation) -> list[str]:
    """Nothing of a handover outlives its run."""
    found = ["a secret left over"] if simulation.tasks.secrets else []
    found += ["a row left over"] if simulation.tasks.rows else []
    found += ["a state waits for ever"] if simulation.tasks.waiting else []
    found += ["a task still runs"] if not all(p.done for p in simulation.cloud.processes.values()) else []
    return found


def _files(simulation: Simulation, batches: list[Batch]) -> list[str]:
    bodies = [
        (entry.call_id, block.body)
        for batch in batches
        for entry in batch.entries
        if isinstance(entry, Resulted)
        for block in entry.blocks
        if isinstance(block.body, Body)
    ]
    wrong = [call for call, body in bodies if simulation.artifacts.get(body.key) != call.encode()]
    return ["file is not what the log says"] if wrong else []


def _segments(simulation: Simulation, batches: list[Batch]) -> list[str]:
    """A segment exists before a batch names it, and matches the log."""
    named = {batch.state.segment for batch in batches} - {0}
    bodies = {n: simulation.artifacts.objects.get(segment_key(LANE, n)) for n in named}
    found = ["segment named and not there" for body in bodies.values() if body is None]
    if any(batch.state.segment >= batch.n for batch in batches):
        found.append("segment of what comes later")
    whole = Timeline.empty(LANE).extended(batches)
    for body in bodies.values():
        held = decode_segment(body, LANE, STANDARD) if body else None
        if held is not None and replace(held.extended(batches), base=0, batches=whole.batches) != whole:
            found.append("segment is not what the log says")
    return found


def _streams(simulation: Simulation, batches: list[Batch]) -> list[str]:
    """One sample a delta stream, and the terminal's answer is a sample that was recorded."""
    found = []
    for claim in range(1, len(batches) + 1):
        text = "".join(delta.text for delta in simulation.deltas.since(LANE, claim))
        if len(set(re.findall(r"\[(s\d+)\.", text))) > 1:
            found.append("two samples in one delta stream")
    answers = {e.answer for b in batches for e in b.entries if isinstance(e, Decided) and e.answer}
    shown = {
        e.answer for b in batches for e in b.entries if isinstance(e, Closed) and e.outcome == "completed"
    }
    if not shown <= answers | {STOPPED}:
        found.append("shown answer was never decided")
    return found


def _screen(batches: list[Batch], client: Client) -> list[str]:
    durable = [batch.n for batch in batches if derive(batch)]
    return [] if client.got == durable else ["client missed or repeated events"]
