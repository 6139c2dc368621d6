"""Rendering a round's request from a cached conversation, and from its stored log, beside a join of its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bench.conversation import LANE, converse, cut, make_agent, objects, stored
from bench.row import Limit, MeasureError, Row
from bench.timing import cpu_ms, interleave
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.memory_wiring import in_memory
from stepline.delivery.effect import current_step
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.loop.stream_generation import build_model_request, round_facts
from stepline.model.batch import decode_batch
from stepline.model.ids import utc
from stepline.ports.model import ModelRequest
from stepline.settings import Settings
from stepline.timeline.fold import Timeline

SIZES: Final = (10, 1000, 5000)
GOAL_TIMES: Final = {1000: 4.0, 5000: 2.0}
ROUNDS: Final = 9
REPEATS: Final = 5


def rows() -> list[Row]:
    """Return `render_ms_{warm,cold}_<blocks>`."""
    conversation = converse(max(SIZES))
    kept = {blocks: cut(stored(conversation), decode_batch, blocks) for blocks in SIZES}
    found = [_measured(Rendering(bodies, objects(conversation)), blocks) for blocks, bodies in kept.items()]
    return [row for pair in zip(*found, strict=True) for row in pair]


class Rendering:
    """One conversation, at the moment when its next round is due."""

    def __init__(self, bodies: list[bytes], kept: Mapping[str, bytes]) -> None:
        """Store its log and its objects, and its timeline without the newest round."""
        self._bodies, self._kept = bodies, kept
        self._segment = decode_batch(bodies[-1]).state.segment
        self._agent = make_agent()
        app = self._app()
        self._ports = app.ports
        batches = Journal(app.ports, LANE, "bench").since(0)
        self._newest = batches[-2:]
        self._known = Timeline.empty(LANE).extended(batches[:-2])
        self._request(self._known)  # so that lazy values are created
        request = self._request(self._known.extended(self._newest))
        self.texts = [part.text for part in (*request.system, *request.content)]

    def warm(self) -> ModelRequest:
        """Fold one round and render."""
        return self._request(self._known.extended(self._newest))

    def cold(self) -> ModelRequest:
        """Read the log, fold it and render."""
        app = self._app()
        return self._request(History().load(Journal(app.ports, LANE, "bench"), segment=self._segment))

    def _app(self) -> LoopApp:
        app = in_memory(Settings.from_env({}))
        stored(app)[:] = self._bodies
        objects(app).update(self._kept)
        return app

    def _request(self, timeline: Timeline) -> ModelRequest:
        step = current_step(LANE, timeline.tail)
        now = utc(self._ports.clock.now())
        facts = round_facts(self._ports, self._agent, timeline, step, now=now)
        return build_model_request(self._ports, self._agent, timeline, facts)


def _measured(ours: Rendering, blocks: int) -> tuple[Row, Row]:
    if "".join(ours.texts) != _text(ours.cold()):
        raise MeasureError("what is stored and what is known render differently")
    size = sum(map(len, ours.texts))
    whole = "".join(ours.texts)
    pieces = [whole[at : at + size // blocks] for at in range(0, size, size // blocks)]
    samples: dict[str, Callable[[], float]] = {
        "warm": lambda: cpu_ms(lambda: _repeat(ours.warm)) / REPEATS,
        "cold": lambda: cpu_ms(lambda: _text(ours.cold())),
        "join": lambda: cpu_ms(lambda: _repeat(lambda: "".join(pieces))) / REPEATS,
    }
    found = interleave(samples, ROUNDS)
    limit = Limit("join", found["join"])
    note = f"{size} characters"
    return (
        Row(
            metric=f"render_ms_warm_{blocks}",
            value=found["warm"],
            unit="ms CPU",
            limit=limit,
            goal_times=GOAL_TIMES.get(blocks),
            note=note,
        ),
        Row(metric=f"render_ms_cold_{blocks}", value=found["cold"], unit="ms CPU", limit=limit, note=note),
    )


def _repeat(run: Callable[[], object]) -> None:
    for _ in range(REPEATS):
        run()


def _text(request: ModelRequest) -> str:
    return "".join(part.text for part in (*request.system, *request.content))
