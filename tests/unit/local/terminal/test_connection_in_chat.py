"""A chat whose connection breaks, and one whose conversation continues elsewhere."""

from __future__ import annotations

import pytest

from stepline.local.client.change import EventsApplied
from stepline.local.client.session import Session
from stepline.local.terminal.chat import CONNECTED, LOST, Chat
from stepline.local.terminal.keyboard import Key
from stepline.local.terminal.turn_view import PlainView, RichView
from stepline.model.wire.event import ClientEvent, SyncFrame, encode_frame
from tests.unit.local.client.answering_gateway import Agent, no_api, no_uploader
from tests.unit.local.client.simulated_connection import PACE, RemoteEnd
from tests.unit.local.terminal.recorded_surface import RecordedSurface

TRIES = len(PACE.reconnect_delays_s)


class Patient:
    """A keyboard at which time passes: `pieces` are lines, and functions to call while nothing is typed.

    `in_turn` is called once, while the agent works.
    """

    commands = True
    draft = ""

    def __init__(self, *pieces, in_turn=None):
        self.pieces = list(pieces)
        self.in_turn = in_turn

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        """No state was changed."""

    def line(self, wait_s=None):
        if not self.pieces:
            return Key.END
        piece = self.pieces.pop(0)
        if callable(piece):
            assert wait_s is not None, "nothing is looked at while nothing is typed"
            self.clock.pause(wait_s)
            piece()
            return None
        return piece

    def typed(self):
        if self.in_turn:
            self.in_turn()
            self.in_turn = None
        return []

    def give_back(self, text):
        """There is nothing to restore."""


@pytest.fixture
def chat(tmp_path):
    """Return a function that runs a chat at a keyboard, and its remote end, agent and notes with their times."""

    def run(keyboard, far, view=None):
        noted = []
        keyboard.clock = far.clock
        note = lambda text: noted.append((far.clock.monotonic_s(), text))  # noqa: E731 - two of the view's functions
        opened = lambda state: Session(far.dial, state, far.clock, PACE, uniform=max)  # noqa: E731 - as above
        chat = Chat(
            opened,
            view or PlainView(note, note),
            keyboard,
            open_uploader=no_uploader,
            open_api=no_api,
            user="ann",
            home=tmp_path,
        )
        assert chat.run() == 0
        return noted

    return run


def times_of(noted, text):
    return [at_s for at_s, said in noted if said == text]


def idle():
    """Let time pass."""


def test_a_connection_that_breaks_at_the_prompt_is_reported_at_once_and_again_when_it_is_back(chat):
    far = RemoteEnd(Agent(patience=0))
    cut_s = []

    def cut():
        cut_s.append(far.clock.monotonic_s())
        far.refuses = 2
        far.wires[-1].cut()

    noted = chat(Patient("go", cut, idle, idle, "again"), far)
    (lost_s,), (back_s,) = times_of(noted, LOST), times_of(noted, CONNECTED)
    assert lost_s - cut_s[0] <= 2
    assert back_s > lost_s
    assert [text for _, text in far.script.heard] == ["go", "again"]


def test_a_connection_that_breaks_in_a_turn_is_reported_and_the_answer_arrives(chat):
    agent = Agent(patience=0)
    held = []

    def script(request):
        frames = agent(request)
        if request["action"] == "send":
            held.extend(frames)
            return frames[:1]
        return [*held, SyncFrame(conversation=agent.conversation, n=agent.n)]

    far = RemoteEnd(script)

    def cut():
        far.wires[-1].cut()

    noted = chat(Patient("go", in_turn=cut), far)
    said = [text for _, text in noted]
    assert said.index(LOST) < said.index(CONNECTED) < said.index("\nall heard")


def test_a_connection_that_does_not_come_back_is_an_error_at_the_prompt_and_the_next_message_tries_again(
    chat,
):
    far = RemoteEnd(Agent(patience=0))

    def cut():
        far.refuses = TRIES
        far.wires[-1].cut()

    noted = chat(Patient("go", cut, idle, "again"), far)
    (error,) = [text for _, text in noted if text.startswith("error: socket_unreachable: ")]
    assert error.endswith("your next message tries again")
    assert [text for _, text in far.script.heard] == ["go", "again"]


def test_a_turn_that_another_client_begins_is_shown_at_the_prompt(chat):
    agent = Agent(patience=0)
    far = RemoteEnd(agent)

    def script(request):
        if request["action"] == "resume":
            end = agent.batch(agent.event("chat.complete", answer="said elsewhere"))
            return [end, SyncFrame(conversation=agent.conversation, n=agent.n)]
        return agent(request)

    def begun():
        far.wires[-1].inbox.append(encode_frame(agent.batch(agent.event("chat.start"))))

    far.script = script
    noted = chat(Patient("go", begun, idle), far)
    assert "\nsaid elsewhere" in [text for _, text in noted]


def test_between_two_turns_a_terminal_shows_no_panel():
    paper = RecordedSurface()
    view = RichView(paper)
    with view:
        assert paper.shown()
    given = ClientEvent(type="turn.feedback", route="", ts="", turn_id="turn_1", data={"origin": "user"})
    view.show(EventsApplied(n=2, prev=1, events=(given,)))
    assert not paper.shown()
