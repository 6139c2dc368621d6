"""A resumed round: what a process that remembers nothing spends on one Decide and one Act, and what it puts.

The log stands as bytes in the memory twin. A sample reads and folds it, renders the request, takes one decision
of an instant model, puts it, runs one tool and puts its result. The peer does the same on SQLite.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.conversation import Driver, InstantModel, cut, make_agent, say_call, spilled, stored, write_log
from bench.peer import SEGMENT_BLOCKS, LangGraph, NoPeerError, Splice
from bench.row import Limit, MeasureError, Row
from bench.timing import cpu_ms, interleave
from stepline.bootstrap import in_memory
from stepline.loop.history import History
from stepline.model.batch import decode_batch
from stepline.settings import Settings

SIZES = (10, 1000, 5000)
GOALS_MS = {10: 3.5, 5000: 15.5}
FLAT = 1.05
ROUNDS = 9
CHANNELS = {"langgraph_sqlite": "whole", "langgraph_delta": "delta"}


def rows() -> list[Row]:
    """Return `resume_cpu_ms_<blocks>` and `round_bytes_<blocks>`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reason = ""
        peer: LangGraph | None = None
        try:
            peer = stack.enter_context(LangGraph())
        except NoPeerError as error:
            reason = str(error)
        log = write_log(max(SIZES))
        ours = {blocks: Resumed(cut(log, decode_batch, blocks)) for blocks in SIZES}
        timed = [_timed(blocks, ours[blocks], peer, folder, reason) for blocks in SIZES]
        return [*timed, *_stored(ours, peer, reason)]


class Resumed:
    """Our round over one stored log."""

    def __init__(self, bodies: list[bytes]) -> None:
        """Keep the log; every sample starts from it."""
        self._bodies = bodies
        self._agent = make_agent()
        self._model = InstantModel(say_call(thinking_chars=150, argument_chars=200))
        self.put_bytes = 0

    def sample(self) -> float:
        """Return the CPU milliseconds of one round in a new app with an empty memory."""
        app, history = in_memory(Settings.from_env({})), History()
        stored(app)[:] = self._bodies
        driver = Driver(ports=app.ports, agent=self._agent, model=self._model)
        spent_ms = cpu_ms(lambda: driver.round(lambda: history))
        new = stored(app)[len(self._bodies) :]
        if len(new) != 2:
            raise MeasureError(f"not one round: {len(new)} batches")
        self.put_bytes = sum(len(body) for body in [*new, *spilled(app)])
        return spent_ms


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
        goal=GOALS_MS.get(blocks),
        note=reason,
    )


def _stored(ours: dict[int, Resumed], peer: LangGraph | None, reason: str) -> list[Row]:
    small, large = min(SIZES), max(SIZES)
    found = []
    for blocks in (small, large):
        peers = {name: peer.bytes[channel, blocks] for name, channel in CHANNELS.items()} if peer else {}
        goal = round(ours[small].put_bytes * FLAT) if blocks == large else None
        found.append(
            Row(
                metric=f"round_bytes_{blocks}",
                value=ours[blocks].put_bytes,
                unit="B",
                peers=peers,
                goal=goal,
                note=reason,
            )
        )
    return found
