"""A chat with somebody at the keyboard: what is typed while the agent works, and what comes back."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from stepline.local.chat import HELP, INTERRUPTED, Chat
from stepline.local.client.effect import (
    EventsApplied,
    HandedBack,
    Steered,
    StreamSettled,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.session import Session
from stepline.local.keyboard import STOP
from stepline.local.view import PlainView, RichView
from stepline.model.event import AckFrame, ClientEvent, EventFrame
from tests.unit.client.simulated import Far, Pace

PACE = Pace(tick_s=1.0)


class Person:
    """Says `lines` at the prompt; while the agent works, what stands in `meanwhile`, one a look."""

    commands = True

    def __init__(self, *lines, meanwhile=()):
        self.lines = list(lines)
        self.meanwhile = list(meanwhile)
        self.draft = ""
        self.prompted_with = []

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        """Nothing was changed."""

    def line(self):
        self.prompted_with.append(self.draft)
        self.draft = ""
        return self.lines.pop(0) if self.lines else None

    def typed(self):
        if not self.meanwhile:
            return []
        line = self.meanwhile.pop(0)
        if line is KeyboardInterrupt:
            raise KeyboardInterrupt
        return [line] if line else []

    def give_back(self, text):
        self.draft = text


class Agent:
    """A far end whose turn goes on until it is stopped, or until `patience` messages came beside its first one."""

    def __init__(self, patience=1):
        self.patience = patience
        self.n = 0
        self.open = False
        self.queued = {}
        self.heard = []

    def event(self, kind, step="", **data):
        return ClientEvent(type=kind, route="", ts="", turn_id="turn_1", step=step, data=data)

    def batch(self, *events):
        self.n += 1
        return EventFrame(conversation=self.conversation, n=self.n, prev=self.n - 1, claim=0, events=events)

    def dropped(self, message_id, kind, n, reason):
        data = {"n": n, "message_id": message_id, "kind": kind, "reason": reason}
        return ClientEvent(type="chat.step", route="", ts="", step="dropped", data=data)

    def __call__(self, request):
        if request["action"] in ("ping", "resume"):
            return []
        self.conversation, message_id = request["conversation"], request["message_id"]
        kind = request.get("kind", "followup" if self.open else "prompt")
        text = request.get("text", request.get("payload", {}).get("text", ""))
        self.heard.append((kind, text))
        said = {"message_id": message_id, "kind": "steer" if kind == "stop" else kind, "text": text}
        accepted = ClientEvent(type="chat.conversation.accepted", route="", ts="", data=said)
        frames, n = [], self.n + 1
        if kind == "prompt":
            self.open = True
            frames.append(self.batch(accepted, self.event("chat.start")))
        elif not self.open:
            frames.append(self.batch(accepted, self.dropped(message_id, "steer", n, "nothing_to_steer")))
        else:
            frames.append(self.batch(accepted))
        turn = "turn_1" if self.open else ""
        ack = AckFrame(message_id=message_id, conversation=self.conversation, n=n, kind=kind, turn_id=turn)
        frames.append(ack)
        if kind == "followup":
            self.queued[message_id] = n
        if self.open and kind in ("stop", "steer"):
            frames.append(self.end(message_id, n, text))
        elif self.open and len(self.queued) >= self.patience:
            self.open, self.queued = False, {}
            frames.append(self.batch(self.event("chat.complete", answer="all heard")))
        return frames

    def end(self, message_id, n, text):
        self.open = False
        heeded = {"sequence": n, "message_id": message_id, "text": text, "finalize_rounds": 2 if text else 0}
        back = [
            self.dropped(known, "followup", at, "stopped") for known, at in self.queued.items() if not text
        ]
        self.queued = {}
        return self.batch(
            self.event("timeline.external.steer.interrupted", **heeded),
            self.event("chat.complete", answer="so far"),
            *back,
        )


class Talk:
    def __init__(self, home, person, patience=1):
        self.written, self.noted, self.person = [], [], person
        self.agent = Agent(patience)
        self.far = Far(self.agent)
        view = PlainView(self.written.append, self.noted.append)
        self.chat = Chat(self.session, view, person, user="ann", home=home)

    def session(self, state):
        return Session(self.far.dial, state, self.far.clock, PACE, uniform=max)


@pytest.fixture
def talk(tmp_path):
    return lambda *args, **fields: Talk(tmp_path, *args, **fields)


def test_a_line_that_is_typed_while_the_agent_works_is_said_beside_the_turn(talk):
    here = talk(Person("go", meanwhile=["", "and this"]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("followup", "and this")]
    assert here.written == ["\nall heard"]
    assert "> and this" in here.noted


def test_a_steer_interrupts_and_says_so(talk):
    here = talk(Person("go", meanwhile=["/steer  be short "]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("steer", "be short")]
    assert here.written == ["■ interrupted: be short (at most 2 rounds to come to an end)", "\nso far"]


def test_a_stop_ends_the_turn_and_what_was_not_heard_comes_back_to_the_prompt(talk):
    here = talk(Person("go", meanwhile=["and this", STOP]), patience=9)
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("followup", "and this"), ("stop", "")]
    assert here.written == ["■ stopped", "\nso far", "↩ not heard, the turn was stopped before: and this"]
    assert here.person.prompted_with == ["", "and this"]


def test_at_the_prompt_there_is_nothing_to_stop(talk):
    here = talk(Person(STOP, "go", meanwhile=["", "", "more"]))
    assert here.chat.run() == 0
    assert here.written == ["↩ not heard, nothing is running: stop", "\nall heard"]


def test_a_command_without_its_words_is_explained_and_not_sent(talk):
    here = talk(Person("go", meanwhile=["/steer", "/new", "more"]))
    here.chat.run()
    assert here.agent.heard == [("prompt", "go"), ("followup", "more")]
    assert here.noted.count(HELP) == 3


def test_at_the_prompt_it_is_explained_as_well(talk):
    here = talk(Person("/steer ", "go", meanwhile=["more"]))
    here.chat.run()
    assert here.agent.heard == [("prompt", "go"), ("followup", "more")]
    assert here.noted.count(HELP) == 2


def test_a_line_that_is_too_large_while_the_agent_works_leaves_the_turn_alone(talk):
    here = talk(Person("go", meanwhile=["x" * 140_000, "more"]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("followup", "more")]
    assert any("message_too_large" in note for note in here.noted)


def test_a_second_ctrl_c_leaves_a_turn_that_goes_on(talk):
    here = talk(Person("go", meanwhile=["", KeyboardInterrupt]))
    assert here.chat.run() == INTERRUPTED
    assert "--conversation" in here.noted[-1]


def panel(*effects, draft="", width=60):
    console = Console(file=io.StringIO(), width=width, height=30, color_system=None, force_terminal=False)
    view = RichView(console)
    for effect in effects:
        view.show(effect)
    printed = console.file.getvalue()
    view.typing(draft)
    console.file.truncate(0)
    console.file.seek(0)
    console.print(view._content())
    return printed, console.file.getvalue()


def streamed(claim=1):
    decided = ClientEvent(type="solver.react.decision", route="", ts="", data={"claim": claim})
    return (
        TextAppended(claim=claim, lane="answer.0", off=0, text="Half an ans"),
        EventsApplied(n=3, prev=2, events=(decided,)),
        StreamSettled(claim=claim),
    )


def steered(rounds):
    return Steered(
        n=2, turn_id="t", message_id="m2", text="x" if rounds else "", phase="", finalize_rounds=rounds
    )


def test_what_was_shown_of_an_interrupted_answer_stays_above_what_comes_next():
    printed, left = panel(*streamed(), steered(2))
    assert printed.index("Half an ans") < printed.index("■ interrupted: x")
    assert "Half" not in left


def test_a_stopped_answer_stands_once():
    ended = TurnEnded(n=4, turn_id="t", outcome="completed", answer="Half an ans")
    printed, _ = panel(*streamed(), steered(0), ended)
    assert printed.count("Half an ans") == 1
    assert printed.index("■ stopped") < printed.index("Half an ans")


def test_what_is_handed_back_is_one_line_on_which_nothing_acts():
    evil = "\x1b]8;;https://evil\x07link\n\x1b[2J"
    effect = HandedBack(n=2, message_id="m2", kind=evil, text=evil, reason=evil)
    printed, _ = panel(effect, width=300)
    assert "\x1b" not in printed
    assert len(printed.splitlines()) == 1
    assert "\x1b" not in panel(HandedBack(n=2, message_id="m2", kind=evil, text="", reason=""))[0]


def test_the_line_that_is_being_typed_stands_under_the_turn_and_shows_its_end():
    assert "> hello▏" in panel(draft="hello")[1]
    _, shown = panel(draft="a" * 100 + "END", width=40)
    assert "END▏" in shown
    assert max(map(len, shown.splitlines())) <= 40
    assert ">" not in panel()[1]
