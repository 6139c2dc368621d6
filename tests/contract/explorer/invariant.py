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
    Closed,
    Decided,
    Dropped,
    Inbound,
    Opened,
    Resulted,
    Steered,
    TakenOver,
)
from stepline.model.wire.live_event import RULES
from stepline.rendering.layout import STANDARD
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import decode_segment
from tests.contract.explorer.client import Client
from tests.contract.explorer.simulation import LANE, PROGRAM, Simulation


def violations(simulation: Simulation, client: Client) -> list[str]:
    """Return what a run broke, sorted; nothing for a run that kept every promise."""
    batches = simulation.batches()
    found = [
        *(["a worker broke"] if simulation.broke else []),
        *_settled(simulation),
        *_messages(simulation, batches),
        *_turns(batches),
        *_steers(batches),
        *_calls(batches),
        *_effects(simulation, batches),
        *_tasks(simulation, batches),
        *_files(simulation, batches),
        *_segments(simulation, batches),
        *_streams(simulation, batches),
        *_screen(batches, client),
    ]
    return sorted(set(found))


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
    homes = _homes(batches)
    waits = {
        batch.n
        for batch in batches
        for entry in batch.entries
        if isinstance(entry, Inbound) and RULES[entry.event_class].unseen == "kept"
    }
    found += ["message in no turn" for n, places in homes.items() if not places and n not in waits]
    found += ["message in two turns" for places in homes.values() if len(places) > 1]
    return found


def _homes(batches: list[Batch]) -> dict[int, set[str]]:  # noqa: C901, PLR0912 - one branch a kind of entry
    """Return the turns that each message belongs to, by the batch that admitted it."""
    homes: dict[int, set[str]] = {}
    steers: set[int] = set()
    opened: dict[str, int] = {}
    during: dict[int, str] = {}
    turn = ""
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Inbound():
                    homes[batch.n], during[batch.n] = set(), turn
                    steers |= {batch.n} if entry.steers else set()
                case Steered():
                    for n in steers:
                        # A stop leaves the steers before it to the close; a text is read with those before it.
                        if (n == entry.n or (entry.finalize and n <= entry.n)) and during[n] == turn:
                            homes[n].add(turn)
                case Closed():
                    turn = ""
                case Opened(turn=turn, prompts=prompts):
                    opened[turn] = batch.n
                    for n in prompts:
                        homes[n].add(turn)
                case Decided():
                    for n, places in homes.items():
                        if n not in steers and opened[turn] < n <= batch.state.rendered and during[n] == turn:
                            places.add(turn)
                case Dropped(n=n):
                    homes[n].add("dropped")
    return homes


def _turns(batches: list[Batch]) -> list[str]:
    """One end a turn, one decision a round, and nobody of an older epoch commits."""
    found = []
    ends: Counter[str] = Counter()
    rounds: Counter[tuple[str, int]] = Counter()
    epoch = 0
    for batch in batches:
        claimed = batch.step.partition("/")[2]
        stale = claimed != "" and int(claimed) != epoch
        for entry in batch.entries:
            match entry:
                case Opened() | TakenOver():
                    epoch = batch.n
                case Decided(iteration=iteration):
                    rounds[batch.state.turn, iteration] += 1
                    if stale:
                        found.append("stale owner committed")
                case Closed(turn=turn):
                    ends[turn] += 1
    found += ["two terminals" for count in ends.values() if count > 1]
    found += ["two decisions for one round" for count in rounds.values() if count > 1]
    return found


def _steers(batches: list[Batch]) -> list[str]:
    """A steer is heeded once; behind a stop nothing is decided, and behind a text only a few rounds are."""
    found = []
    heeded: Counter[int] = Counter()
    left: int | None = None
    stopped, asked = False, 0
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Steered(n=n, finalize=finalize):
                    heeded[n] += 1
                    stopped = not finalize
                    left = None if asked > n else finalize
                case Inbound(reactive=True):
                    asked, left = batch.n, None
                case Opened() | Closed():
                    stopped, left = False, None
                case Decided():
                    found += ["decided behind a stop"] if stopped else []
                    found += ["a steered turn goes on"] if left == 0 and not stopped else []
                    left = None if left is None else left - 1
    return found + ["steer heeded twice" for times in heeded.values() if times > 1]


def _calls(batches: list[Batch]) -> list[str]:
    """Every call of a turn that came to its end has a result."""
    asked: set[str] = set()
    found = []
    for batch in batches:
        for entry in batch.entries:
            match entry:
                case Decided(accepted=True, actions=actions):
                    asked |= {action.call_id for action in actions}
                case Resulted(call_id=call):
                    asked.discard(call)
                case Closed(outcome=outcome):
                    found += ["call without a result"] if asked and outcome == "completed" else []
                    asked = set()
    return found


def _effects(simulation: Simulation, batches: list[Batch]) -> list[str]:
    """An effect happens at most once, or the log says that nobody knows."""
    results = {
        entry.call_id: (entry.tool_id, entry.status)
        for batch in reversed(batches)
        for entry in batch.entries
        if isinstance(entry, Resulted)
    }
    found = []
    for call, times in simulation.effects.items():
        if times > 1:
            marked = results.get(call, ("", ""))[1] == "unverified"
            found.append("effect twice, marked" if marked else "effect twice, unmarked")
    found += [
        "done without an effect"
        for call, (tool, status) in results.items()
        if tool in ("test.once", PROGRAM) and status == "ok" and not simulation.effects[call]
    ]
    found += [
        "a run denied that took place"
        for call, (tool, status) in results.items()
        if tool == PROGRAM and status == "error" and simulation.effects[call]
    ]
    return found


def _tasks(simulation: Simulation, batches: list[Batch]) -> list[str]:
    """Nothing of a handover outlives its run, and a run has one result."""
    results = Counter(
        entry.call_id for batch in batches for entry in batch.entries if isinstance(entry, Resulted)
    )
    found = ["two results of one call" for times in results.values() if times > 1]
    found += ["a secret left behind"] if simulation.tasks.secrets else []
    found += ["a row left behind"] if simulation.tasks.rows else []
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
    """A segment is there before anybody hears of it, and holds what the log says."""
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
