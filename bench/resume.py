"""A resumed round: the CPU time of one Decide and one Act in a process without a cache, and the bytes put.

The log is in the memory twin as bytes, beside its segments. A sample reads and folds them, renders the
request, takes one decision of an instant model, puts it, runs one tool and puts its result. The peer does the
same on SQLite. Neither reduces the context; the saving by the context limit is a row of its own. Between two
segments the log grows, so a sample is taken at half of that growth.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace as replaced
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.budget import BUDGETS
from bench.conversation import (
    LANE,
    Driver,
    InstantModel,
    converse,
    cut,
    make_agent,
    objects,
    say_call,
    stored,
)
from bench.peer import SEGMENT_BLOCKS, LangGraph, NoPeerError, Splice
from bench.reads import CountingModel
from bench.row import Limit, MeasureError, Row
from bench.timing import cpu_ms, interleave
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.memory_wiring import in_memory
from stepline.log.bindings import Policy
from stepline.log.timeline_cache import History, segment_key
from stepline.model.batch import Batch, decode_batch
from stepline.model.entry import Decided, Resulted
from stepline.rendering.piece import text_bytes
from stepline.rendering.request_parts import RequestParts, Strand
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import encode_segment

SIZES = (10, 1000, 5000)
LONG_TIMES = 10
LONG = LONG_TIMES * max(SIZES)
"""The blocks of a conversation whose log would take hours to write."""
GOAL_TIMES = {10: 3.2, 5000: 2.5, LONG: 2.5}
GROWTH = 1.3
ROUNDS = 9
CHANNELS = {"langgraph_sqlite": "whole", "langgraph_delta": "delta"}


def rows() -> list[Row]:
    """Return `resume_cpu_ms_<blocks>`, `round_bytes_<blocks>`, `resume_growth_in_budget` and `seal_cpu_ms`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reason = ""
        peer: LangGraph | None = None
        try:
            peer = stack.enter_context(LangGraph())
        except NoPeerError as error:
            reason = str(error)
        conversation = converse(max(SIZES))
        ours = {blocks: Resumed(conversation, blocks) for blocks in SIZES}
        timed = [_timed(blocks, ours[blocks], peer, folder, reason) for blocks in SIZES]
        long = Resumed(conversation, max(SIZES), times=LONG_TIMES)
        note = (
            f"the newest segment of {max(SIZES)} blocks with its parts {LONG_TIMES} times; no peer was asked"
        )
        timed.append(_timed(LONG, long, None, folder, note))
        ends = {blocks: ours[blocks] for blocks in (SIZES[0], SIZES[-1])}
        return [*timed, *_stored(ends, peer, reason), _growth(), _sealing(conversation)]


class Resumed:
    """Our round over one stored conversation."""

    def __init__(self, conversation: LoopApp, blocks: int, *, times: int = 1) -> None:
        """Store the log up to about this many blocks, and the objects, from which every sample starts.

        The newest segment has the parts of its requests `times` over.
        """
        self._bodies, self._kept = (
            half_grown(cut(stored(conversation), decode_batch, blocks)),
            objects(conversation),
        )
        if times > 1:
            n = decode_batch(self._bodies[-1]).state.segment
            timeline = Timeline.empty(LANE).extended(map(decode_batch, self._bodies[:n]))
            self._kept = self._kept | {segment_key(LANE, n): encode_segment(_repeated(timeline, times))}
        self._agent = make_agent()
        self._model = InstantModel(say_call(thinking_chars=150, argument_chars=200))
        self.put_bytes = self.new_bytes = 0

    def sample(self) -> float:
        """Return the CPU milliseconds of one round in a new app without a cache."""
        app = in_memory(Settings.from_env({}))
        stored(app)[:] = self._bodies
        objects(app).update(self._kept)
        driver = Driver(ports=app.ports, agent=self._agent, model=self._model)
        step = driver.step()  # passed on by the state machine
        spent_ms = cpu_ms(lambda: driver.round(History, step))
        new = stored(app)[len(self._bodies) :]
        if len(new) != 2:
            raise MeasureError(f"not one round: {len(new)} batches")
        bodies = [body for key, body in objects(app).items() if key not in self._kept]
        self.put_bytes = sum(len(body) for body in [*new, *bodies])
        self.new_bytes = sum(_block_bytes(decode_batch(body)) for body in new)
        return spent_ms


def _repeated(timeline: Timeline, times: int) -> Timeline:
    """Return a timeline as after as many turns and requests `times` over, each with the same texts."""
    parts, pieces, more = timeline.parts, tuple(timeline.pieces), times - 1
    end, count = parts.ends[-1], len(parts.ends)
    more_bytes = more * text_bytes(pieces[:end])
    return replaced(
        timeline,
        history=timeline.history * times,
        asked=replace(timeline.asked, size=timeline.asked.size + more_bytes),
        parts=RequestParts(
            Strand(pieces[:end] * times + pieces[end:]),
            Strand(tuple(parts.sealed) * times),
            ends=[time * end + one for time in range(times) for one in parts.ends],
            size=parts.size + more_bytes,
            turn_part=parts.turn_part + more * count,
            seen_part=parts.seen_part + more * count,
            marked=[time * count + one for time in range(times) for one in parts.marked],
        ),
    )


def half_grown(bodies: list[bytes]) -> list[bytes]:
    """Return the log up to where a decision is due and half a segment has been written since the last one."""
    for at in range(len(bodies), 0, -1):
        batch = decode_batch(bodies[at - 1])
        if not batch.state.segment:
            return bodies
        if isinstance(batch.entries[-1], Resulted) and _half(batch):
            return bodies[:at]
    raise MeasureError("no batch of this log is half way between two segments")


def _half(batch: Batch) -> bool:
    return abs(batch.n - batch.state.segment - Policy().seal_batches // 2) <= 1


def _block_bytes(batch: Batch) -> int:
    """Return the size of a batch's blocks as JSON, which every implementation has to store."""
    found = 0
    for entry in batch.entries:
        if isinstance(entry, Decided):
            found += len(msgspec.json.encode((entry.thinking, entry.actions)))
        elif isinstance(entry, Resulted):
            found += len(msgspec.json.encode(entry.blocks))
    return found


def _timed(blocks: int, ours: Resumed, peer: LangGraph | None, folder: Path, reason: str) -> Row:
    samples: dict[str, Callable[[], float]] = {
        "ours": ours.sample,
        "segments": lambda: Splice(folder, segment_blocks=SEGMENT_BLOCKS).sample(blocks),
        "sqlite_rows": lambda: Splice(folder).sample(blocks),
    }
    if peer is not None:
        for name, channel in CHANNELS.items():
            samples[name] = lambda channel=channel: peer.sample(channel, blocks)  # type: ignore[misc]
    found = interleave(samples, ROUNDS)
    return Row(
        metric=f"resume_cpu_ms_{blocks}",
        value=found.pop("ours"),
        unit="ms CPU",
        limit=Limit(f"sealed segments of {SEGMENT_BLOCKS}", found.pop("segments")),
        peers=found,
        goal_times=GOAL_TIMES.get(blocks),
        note=reason,
    )


def few_rows() -> list[Row]:
    """Return `round_bytes_10` alone, without a peer."""
    blocks = SIZES[0]
    one = Resumed(converse(blocks), blocks)
    one.sample()
    return _stored({blocks: one}, None, "")


def _stored(ours: Mapping[int, Resumed], peer: LangGraph | None, reason: str) -> list[Row]:
    found = []
    for blocks in ours:
        peers = {name: peer.bytes[channel, blocks] for name, channel in CHANNELS.items()} if peer else {}
        new = ours[blocks].new_bytes
        found.append(
            Row(
                metric=f"round_bytes_{blocks}",
                value=ours[blocks].put_bytes,
                unit="B",
                peers=peers,
                goal=BUDGETS[f"round_bytes_{blocks}"].aim,
                note=f"its blocks have {new} B as JSON. {reason}".strip(),
            )
        )
    return found


def _growth() -> Row:
    """Return how a round grows after the context limit is reached."""
    conversation = converse(max(SIZES), CountingModel())
    ours = {blocks: Resumed(conversation, blocks) for blocks in SIZES[1:]}
    found = interleave({str(blocks): one.sample for blocks, one in ours.items()}, ROUNDS)
    less, more = (found[str(blocks)] for blocks in ours)
    return Row(
        metric="resume_growth_in_budget",
        value=round(more / less, 2),
        unit="x",
        goal=GROWTH,
        note=f"{less} ms CPU at {SIZES[1]} blocks, {more} at {SIZES[2]}, with the default limit of a context",
    )


def _sealing(conversation: LoopApp) -> Row:
    """Return the additional cost of a round that seals."""
    timeline = Timeline.empty(Driver.lane).extended(map(decode_batch, stored(conversation)))
    sizes = [len(body) for key, body in objects(conversation).items() if key.startswith("seg/")]
    rounds = Policy().seal_batches // 2
    return Row(
        metric="seal_cpu_ms",
        value=interleave({"ours": lambda: cpu_ms(lambda: encode_segment(timeline))}, ROUNDS)["ours"],
        unit="ms CPU",
        note=(
            f"once in about {rounds} rounds; at {max(SIZES)} blocks of which nothing was forgotten a segment has "
            f"{sizes[-1]} B, all {len(sizes)} of them {sum(sizes)} B, until they expire"
        ),
    )
