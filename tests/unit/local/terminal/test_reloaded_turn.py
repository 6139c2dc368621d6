"""A reloading client shows the same turns as one that watched, for every recorded conversation."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepline.adapters.memory.model import Fail, Say
from stepline.delivery.resume import resume
from stepline.errors import ModelOverloaded
from stepline.local.client.change import Effect, LaneKnown, StreamReset, TextAppended
from stepline.local.client.state import ClientState
from stepline.local.terminal.turn_view import PlainView, RichView
from stepline.model.program.execution import Run
from stepline.model.wire.event import ClientEvent
from stepline.protocol.decision.fanout import FanoutRule
from tests.support.conversation import FAR, LANE, USER, Conversation, durable, frames
from tests.support.fold import fold_frames
from tests.support.generation import BROKEN, answered, called, coded
from tests.support.recorded_thread import compacted, printing, programs, steered
from tests.support.steered_conversation import ANSWER, SPOKEN
from tests.unit.local.terminal.recorded_surface import RecordedSurface

DATA = Path(__file__).parents[3] / "data"
GENERATIONS = [
    path for folder in ("streams", "vectors", "found") for path in sorted((DATA / folder).glob("*.txt"))
]
MIDST = (SPOKEN.index(ANSWER) + len(ANSWER) // 2) // 8


def recorded(path: Path, mode: str) -> Conversation:
    """Return a conversation whose first round is a recorded generation."""
    said = path.read_bytes().decode()
    conversation = Conversation(Say(text=said, piece_chars=7), *[answered("So it is.")] * 4)
    conversation.programs(lambda _job: Run(returncode=0, program_log="ran\n"))
    conversation.agent = dataclasses.replace(conversation.agent, fanout=FanoutRule(mode=mode))
    return conversation


MADE: dict[str, Callable[[], Conversation]] = {
    "a program": lambda: programs(coded("print(1)", "a.csv", notes="I count.", prog_name="count")),
    "a program that is watched": lambda: programs(coded("print(1)", "a.csv"), run=printing),
    "a broken decision": lambda: Conversation(BROKEN, answered("Done.")),
    "a plan and a file": lambda: Conversation(
        called("react.plan", {"mode": "new", "steps": ["look", "write"]}, notes="I plan."),
        called(
            "react.write", {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}
        ),
        answered("Done."),
    ),
    "a steer": lambda: steered("be brief"),
    "a stop": lambda: steered(""),
    "a call that fails in its midst": lambda: Conversation(
        Fail(ModelOverloaded("busy"), after_chars=40, text=SPOKEN), answered("Done.")
    ),
    "a compaction": compacted,
}


def watched(conversation: Conversation) -> tuple[ClientState, list[Effect], list[ClientEvent]]:
    """Run a conversation to its end before a client; return the client's state.

    Messages from its set-up arrive by a resume.
    """
    inbox = conversation.listen("watcher")
    if conversation.batches():
        resume_as(conversation, "watcher")
    else:
        conversation.send("go")
    conversation.run()
    state, effects = fold_frames(ClientState(conversation=LANE.conversation), frames(inbox))
    assert not state.behind()
    return state, list(effects), [event for _, events in durable(inbox) for event in events]


def reloaded(conversation: Conversation) -> tuple[ClientState, list[Effect]]:
    """Return the state of a client that connects at the end."""
    inbox = conversation.connect("reloader")
    resume_as(conversation, "reloader")
    state, effects = fold_frames(ClientState(conversation=LANE.conversation), frames(inbox))
    return state, list(effects)


def resume_as(conversation: Conversation, connection: str) -> None:
    resume(conversation.ports, LANE, user=USER, connection=connection, until_s=FAR, after=0, have={}, claim=0)


def printed(effects: list[Effect]) -> tuple[str, list[str]]:
    """Return the lines that a terminal and a pipe keep of a conversation."""
    paper, lines = RecordedSurface(), []
    with RichView(paper) as rich, PlainView(lines.append, lines.append, usage=True) as plain:
        for effect in effects:
            rich.show(effect)
            plain.show(effect)
    return paper.printed(), lines


CONVERSATIONS: dict[str, Callable[[], Conversation]] = {
    f"{path.parent.name}/{path.stem}, {mode}": lambda path=path, mode=mode: recorded(path, mode)
    for path in GENERATIONS
    for mode in ("off", "safe_fanout")
} | MADE


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_client_that_reloads_shows_what_one_that_watched_shows(name: str) -> None:
    conversation = CONVERSATIONS[name]()
    seen, effects, _ = watched(conversation)
    again, replayed = reloaded(conversation)
    assert (again.cursor, again.open) == (seen.cursor, seen.open)
    assert any(isinstance(effect, TextAppended) for effect in effects)
    assert not any(isinstance(effect, TextAppended) for effect in replayed)
    assert printed(replayed) == printed(effects)


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_streamed_text_of_a_decision_equals_its_events(name: str) -> None:
    _, effects, events = watched(CONVERSATIONS[name]())
    lanes = streams(effects)
    for decision in (event for event in events if event.type == "solver.react.decision"):
        shown = lanes[decision.data["claim"]]
        assert [text.strip() for text in texts(shown, "thinking") if text.strip()] == [
            thought["text"] for thought in decision.data.get("thinking", ())
        ]
        if decision.data["accepted"]:
            assert "\n".join(texts(shown, "notes")) == decision.data["notes"]
        if decision.data["interrupted"]:
            assert "".join(texts(shown, "answer")) == decision.data.get("answer", "")
    sources = [event.data["text"] for event in events if event.type == "code_exec.code"]
    assert sources == [text for claim in ran(events) for text in texts(lanes[claim], "code")]
    for ended in (event for event in events if event.type == "chat.complete"):
        if ended.data["reason"] in ("complete", "exit"):
            said = [text for shown in lanes.values() for text in texts(shown, "answer")]
            assert ended.data["answer"] in said


def test_streamed_output_of_a_program_equals_its_last_event() -> None:
    _, effects, events = watched(CONVERSATIONS["a program that is watched"]())
    (ended,) = [event for event in events if event.type == "code_exec.log"]
    shown = [
        text for lanes in streams(effects).values() for lane, text in lanes.items() if lane.endswith(".log")
    ]
    assert shown == [ended.data["text"]]


def streams(effects: list[Effect]) -> dict[int, dict[str, str]]:
    """Return the lanes of each stream that no other lane made void."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    void: set[tuple[int, str]] = set()
    for effect in effects:
        match effect:
            case TextAppended(claim=claim, lane=lane, text=text):
                found[claim][lane] = found[claim].get(lane, "") + text
            case LaneKnown(claim=claim, facts=facts):
                void.add((claim, facts.replaces))
            case StreamReset(claim=claim):
                found.pop(claim, None)
    return defaultdict(
        dict,
        {
            claim: {lane: text for lane, text in lanes.items() if (claim, lane) not in void}
            for claim, lanes in found.items()
        },
    )


def texts(lanes: dict[str, str], kind: str) -> list[str]:
    return [text for lane, text in lanes.items() if lane.partition(".")[0] == kind]


def ran(events: list[ClientEvent]) -> list[Any]:
    """Return the streams whose decisions run a program, in order."""
    claims = []
    for event in events:
        if event.type == "solver.react.decision":
            claim = event.data["claim"]
        elif event.type == "code_exec.code" and claim not in claims:
            claims.append(claim)
    return claims
