"""Random walks of the replay machine, recorded frame by frame: the frames, and the fold's results.

The fold in TypeScript, `web/src/client`, plays the same frames and must give the same results.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import fields

from docs.build.web_frames import RENAMED, camel
from stepline.local.client.change import Effect
from stepline.local.client.reducer import fold_frame, resume_request
from stepline.local.client.state import ClientState
from stepline.model.base import Value
from stepline.model.wire.event import EventFrame, Frame
from tests.unit.local.client.test_reducer_replay import LANES, TEXTS, C, Replay, Server

PIECE_CHARS: Final = 120
BIG_CHARS: Final = 500


def plain(value: Any) -> Any:
    """Return a value as JSON, with its defaults and its tag."""
    match value:
        case msgspec.Struct():
            config = value.__struct_config__
            tag = {config.tag_field: config.tag} if config.tag_field else {}
            return {**tag, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}
        case dict():
            return {name: plain(one) for name, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return value


def plain_effect(effect: Effect) -> dict[str, Any]:
    """Return an effect as in TypeScript: camel case, except for wire formats."""
    kind = type(effect).__name__
    values = {RENAMED.get(f.name, camel(f.name)): plain(getattr(effect, f.name)) for f in fields(effect)}
    return {"kind": kind[0].lower() + kind[1:], **values}


def plain_state(state: ClientState) -> dict[str, Any]:
    """Return the facts about a state that both sides must agree on; the texts of lanes follow from the effects."""
    found = ((f.name, getattr(state, f.name)) for f in fields(state) if f.name != "conversation")
    return {
        **{camel(name): value for name, value in found if isinstance(value, int | str)},
        "behind": state.behind(),
        "streaming": state.streaming(),
        "lanes": {name: [lane.base, lane.end, len(lane.early)] for name, lane in state.lanes.items()},
        "known": sorted(state.control.facts),
        "void": sorted(state.control.void),
        "due": sorted(state.control.due),
        "parts": {str(n): sorted(pieces) for n, pieces in state.parts.items()},
        "queued": dict(state.queued),
        "unacked": sorted(state.unacked),
    }


def play(state: ClientState, frame: Frame) -> tuple[ClientState, tuple[Effect, ...], dict[str, Any]]:
    """Fold one frame; return the state, the effects, and the step in the vector's format."""
    state, effects = fold_frame(state, frame)
    step = {
        "frame": msgspec.to_builtins(frame),
        "effects": [plain_effect(effect) for effect in effects],
        "resume": resume_request(state),
        "state": plain_state(state),
    }
    return state, effects, step


class _InSmallParts(Server):
    """A server with small frames, for small vectors."""

    def frames(self, n: int) -> list[EventFrame]:
        _, prev, claim, events = self.batches[n - 1]
        text = msgspec.json.encode(events).decode()
        if len(text) < BIG_CHARS:
            return super().frames(n)
        pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
        return [
            EventFrame(
                conversation=C, n=n, prev=prev, claim=claim, part=i + 1, parts=len(pieces), piece=piece
            )
            for i, piece in enumerate(pieces)
        ]


class Walk(Replay):
    """The replay machine, which records each step."""

    big_chars = BIG_CHARS

    def __init__(self) -> None:
        super().__init__()
        self.server = _InSmallParts()
        self.steps: list[dict[str, Any]] = []

    def fold(self, frame: Frame) -> None:
        before = self.client
        super().fold(frame)
        self.steps.append(play(before, frame)[2])


def walk(random: Random, rules: int) -> list[dict[str, Any]]:
    """Return the steps of a walk of this many rules, checked by the machine's own invariants."""
    machine = Walk()
    acts = [
        lambda: machine.the_model_streams(random.choice(TEXTS), random.randint(1, 40)),
        lambda: machine.the_model_streams(random.choice(TEXTS), random.randint(1, 40)),
        lambda: machine.the_stream_reports_a_lane(
            random.choice(TEXTS), random.randint(0, 2), close=random.random() < 0.5
        ),
        lambda: machine.the_stream_is_stored(random.choice(LANES)),
        lambda: machine.a_frame_arrives(0),
        lambda: machine.a_frame_arrives(0),
        lambda: machine.a_frame_arrives(random.randint(0, 1_000)),
        lambda: machine.a_frame_arrives(random.randint(0, 1_000)),
        lambda: machine.a_frame_arrives_and_will_come_again(random.randint(0, 1_000)),
        lambda: machine.a_frame_is_lost(random.randint(0, 1_000)),
        machine.the_client_asks_for_the_rest,
    ]
    rare = [
        machine.the_turn_opens,
        machine.the_round_restarts,
        machine.the_connection_breaks,
        lambda: machine.the_round_is_decided(big=random.random() < 0.3),
        lambda: machine.the_turn_closes(promote=random.random() < 0.5),
    ]
    machine.the_turn_opens()
    for _ in range(rules):
        random.choice(rare if random.random() < 0.1 else acts)()
        machine.the_events_are_a_prefix_of_the_log()
        machine.the_text_is_a_prefix_of_the_stream()
        machine.known_lanes_were_reported_in_order()
    machine.teardown()
    return machine.steps


def vector(name: str, steps: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
    """Return a vector of the fold: `given` is its initial state."""
    return {"name": name, "conversation": C, **given, "steps": steps}


def fold_all(frames: list[Value], state: ClientState) -> list[dict[str, Any]]:
    """Return the steps of these frames."""
    steps = []
    for frame in frames:
        state, _, step = play(state, frame)
        steps.append(step)
    return steps
