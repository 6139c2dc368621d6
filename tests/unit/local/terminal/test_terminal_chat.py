"""A chat with a user at the keyboard: the input while the agent works, and the restored input."""

from __future__ import annotations

import json
from functools import partial

import pytest

from stepline.errors import DependencyError
from stepline.local.client.change import (
    EventsApplied,
    HandedBack,
    Steered,
    StreamSettled,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.http_api import HttpApi
from stepline.local.client.session import Session
from stepline.local.client.uploader import LONG_TEXT, Uploader
from stepline.local.terminal.chat import Chat
from stepline.local.terminal.keyboard import Key, Pipe
from stepline.local.terminal.output import JsonView
from stepline.local.terminal.turn_view import PlainView, RichView
from stepline.model.wire.event import ClientEvent, ErrorFrame
from tests.support.api_server import TOKEN
from tests.support.conversation import Conversation
from tests.support.upload_server import upload_server
from tests.unit.local.client.answering_gateway import Agent, no_api, no_uploader
from tests.unit.local.client.simulated_connection import Pace, RemoteEnd
from tests.unit.local.terminal.recorded_surface import RecordedSurface

PACE = Pace(tick_s=1.0)


class TypedInput:
    """Types `lines` at the prompt; while the agent works, those of `meanwhile`, one per look."""

    commands = True
    draft = ""

    def __init__(self, *lines, meanwhile=()):
        self.lines = list(lines)
        self.meanwhile = list(meanwhile)
        self.given_back = []

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        """No state was changed."""

    def line(self, _wait_s=None):
        return self.lines.pop(0) if self.lines else Key.END

    def typed(self):
        if not self.meanwhile:
            return []
        piece = self.meanwhile.pop(0)
        if piece is KeyboardInterrupt:
            raise KeyboardInterrupt
        return [piece] if piece else []

    def give_back(self, text):
        self.given_back.append(text)


class Talk:
    def __init__(
        self, home, person, patience=1, view=None, open_uploader=no_uploader, *, requests=(), open_api=no_api
    ):
        self.written, self.noted, self.person = [], [], person
        self.agent = Agent(patience)
        self.far = RemoteEnd(self.agent)
        view = view or PlainView(self.written.append, self.noted.append)
        self.chat = Chat(
            self.session,
            view,
            person,
            open_uploader=open_uploader,
            open_api=open_api,
            user="ann",
            home=home,
            requests=requests,
        )

    def session(self, state):
        return Session(self.far.dial, state, self.far.clock, PACE, uniform=max)


@pytest.fixture
def talk(tmp_path):
    return lambda *args, **fields: Talk(tmp_path, *args, **fields)


def test_a_line_typed_while_the_agent_works_is_sent_to_the_turn(talk):
    here = talk(TypedInput("go", meanwhile=["", "and this"]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("followup", "and this")]
    assert here.written == ["\nall heard"]
    assert "> and this" in here.noted


def test_a_new_conversation_on_a_terminal_offers_requests_and_no_other_one_does(talk):
    offers = ["Tell me\nall.", "Draw a chart."]
    here = talk(TypedInput("go", "/new"), requests=offers)
    here.chat.run()
    assert [line for line in here.noted if line.startswith("»")] == ["» Tell me all.", "» Draw a chart."] * 2
    for again in (TypedInput("go"), Pipe(iter(["/new\n"]))):
        there = talk(again, requests=offers)
        there.chat.run()
        assert not [line for line in there.noted if line.startswith("»")]


def test_a_steer_interrupts_and_says_so(talk):
    here = talk(TypedInput("go", meanwhile=["/steer  be short "]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("steer", "be short")]
    assert here.written == ["■ interrupted: be short (at most 2 rounds to finish)", "\nso far"]


@pytest.mark.parametrize("stop", ["/stop", Key.INTERRUPT])
def test_a_stop_ends_the_turn_and_restores_unread_messages(talk, stop):
    here = talk(TypedInput("go", meanwhile=["and this", "//path is odd", stop]), patience=9)
    assert here.chat.run() == 0
    assert here.agent.heard == [
        ("prompt", "go"),
        ("followup", "and this"),
        ("followup", "/path is odd"),
        ("stop", ""),
    ]
    assert here.written[:2] == ["■ stopped", "\nso far"]
    assert here.written[2] == "↩ not read, the turn was stopped first: and this"
    assert here.person.given_back == ["and this\n//path is odd"]


def test_a_stop_at_the_prompt_has_no_effect(talk):
    here = talk(TypedInput("/stop", Key.INTERRUPT, "go", meanwhile=["", "", "more"]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("stop", ""), ("prompt", "go"), ("followup", "more")]
    assert here.written == ["↩ not read, no turn is running: stop", "\nall heard"]


def test_a_steer_without_a_turn_says_so_and_leaves_the_prompt_empty(talk):
    here = talk(TypedInput("go", "/steer be short", meanwhile=["", "more"]))
    here.chat.run()
    assert here.agent.heard[-1] == ("steer", "be short")
    assert here.written[-1] == "↩ not read, no turn is running: be short"
    assert here.person.given_back == []


def test_feedback_is_about_the_turn_that_has_ended_and_a_word_that_is_none_is_not_sent(talk):
    typed = ("go", "/feedback good one", "/feedback not_ok too long", "/feedback none")
    here = talk(TypedInput(*typed, meanwhile=["", "more"]))
    assert here.chat.run() == 0
    assert here.agent.heard == [
        ("prompt", "go"),
        ("followup", "more"),
        ("feedback", "turn_1", "not_ok", "too long"),
        ("feedback", "turn_1", None, ""),
    ]
    assert "☆ user on turn_1, not_ok: too long" in here.written
    assert [note for note in here.noted if note.startswith("error: ")] == [
        "error: bad_message: a reaction is ok, not_ok, neutral, or none"
    ]


def test_a_command_that_cannot_be_done_is_explained_and_not_sent(talk):
    here = talk(TypedInput("/steer ", "/hlep", "go", meanwhile=["/steer", "/new", "/tmp/a is odd", "more"]))
    here.chat.run()
    assert here.agent.heard == [("prompt", "go"), ("followup", "more")]
    assert [note for note in here.noted if note.startswith("error: ")] == [
        "error: usage: /steer needs an argument: /steer TEXT",
        "error: usage: /hlep is not a command and was not sent: /help lists the commands, //hlep sends it as a message",
        "error: usage: /steer needs an argument: /steer TEXT",
        "error: usage: /new works between two turns; /stop ends this one",
        "error: usage: /tmp/a is not a command and was not sent: /help lists the commands, //tmp/a sends it as a message",
    ]
    assert here.person.given_back == []


def test_text_is_sent_as_typed_and_blank_lines_are_not(talk):
    typed = "\u00a0\tone  two 👩\u200d👩\u200d👧\n\n/three \t"
    here = talk(TypedInput("  ", typed, meanwhile=["\u00a0", " //more "]))
    here.chat.run()
    assert here.agent.heard == [("prompt", typed), ("followup", " //more ")]


def test_a_pipe_has_no_commands_but_the_one_for_a_new_conversation(talk):
    here = talk(Pipe(iter(["/stop\n", "/new\n", "\t//tmp\u00a0\n"])), patience=0)
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "/stop"), ("prompt", "\t//tmp\u00a0")]


def test_with_json_a_chat_is_what_a_client_applies(talk, capsys):
    here = talk(Pipe(iter(["hello\n"])), patience=0, view=JsonView())
    assert here.chat.run() == 0
    frames = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [frame["type"] for frame in frames if frame.get("terminal")] == ["chat.complete"]


def test_a_too_large_line_does_not_affect_the_turn_and_is_restored(talk):
    here = talk(TypedInput("go", meanwhile=["x" * 140_000, "more"]))
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("followup", "more")]
    assert any("not_deployed" in note for note in here.noted)
    assert here.person.given_back == ["x" * 140_000]


def test_a_refused_message_is_restored(talk):
    here = talk(TypedInput("//go"))
    here.far.script = lambda request: (
        [ErrorFrame(code="too_large", message="no", message_id=request["message_id"])]
        if request["action"] == "send"
        else []
    )
    here.chat.run()
    assert here.person.given_back == ["//go"]


def test_a_second_ctrl_c_leaves_while_the_turn_continues(talk):
    here = talk(TypedInput("go", meanwhile=["", KeyboardInterrupt]))
    assert here.chat.run() == 0
    assert "--conversation" in here.noted[-2]


@pytest.mark.parametrize("leave", ["/quit", Key.END])
def test_leaving_while_the_agent_works_waits_for_sent_messages_to_arrive(talk, leave):
    here = talk(TypedInput("go", "never", meanwhile=["more", leave]), patience=9)
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "go"), ("followup", "more")]
    assert not here.written
    assert "--conversation" in here.noted[-1]


def test_leaving_names_messages_that_may_not_have_arrived(talk):
    here = talk(TypedInput("go", meanwhile=["", KeyboardInterrupt, "unread"]))
    here.far.script = lambda _: []
    assert here.chat.run() == 0
    assert here.noted[-2:] == ["may not have been sent: go", "not sent: unread"]


def test_input_typed_without_a_connection_is_named(talk):
    here = talk(TypedInput("go", meanwhile=["unread"]))
    here.person.draft = "half a li"
    here.far.refuses = 1_000
    with pytest.raises(DependencyError):
        here.chat.run()
    assert here.noted[-2:] == ["not sent: unread", "not sent: half a li"]


def panel(*effects):
    paper = RecordedSurface()
    view = RichView(paper)
    for effect in effects:
        view.show(effect)
    return paper.printed(), paper.shown()


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


def test_the_shown_part_of_an_interrupted_answer_stays():
    printed, left = panel(*streamed(), steered(2))
    assert printed.index("Half an ans") < printed.index("■ interrupted: x")
    assert "Half" not in left


def test_a_stopped_answer_is_printed_once():
    ended = TurnEnded(n=4, turn_id="t", outcome="completed", answer="Half an ans")
    printed, _ = panel(*streamed(), steered(0), ended)
    assert printed.count("Half an ans") == 1
    assert printed.index("■ stopped") < printed.index("Half an ans")


def test_a_message_handed_back_is_one_line_without_escapes():
    evil = "\x1b]8;;https://evil\x07link\n\x1b[2J"
    effect = HandedBack(n=2, message_id="m2", kind=evil, text=evil, reason=evil)
    printed, _ = panel(effect)
    assert "\x1b" not in printed
    assert len(printed.splitlines()) == 1
    assert "\x1b" not in panel(HandedBack(n=2, message_id="m2", kind=evil, text="", reason=""))[0]


@pytest.fixture
def files(tmp_path):
    """A table, an invalid note, and the way of files to the API."""
    (tmp_path / "a.csv").write_text("a,b\n")
    (tmp_path / "odd.csv").write_bytes(b"a\0b")
    conversation = Conversation()
    with upload_server(conversation.ports) as server:
        api = HttpApi(server.url, lambda: TOKEN)
        yield tmp_path, partial(Uploader, api, conversation.ports.clock, report=lambda _: None)
        api.close()


def test_an_attached_file_is_sent_with_the_next_message_only(talk, files):
    folder, open_uploader = files
    person = TypedInput(f"/attach {folder}/a.csv", "see this", "and now?")
    here = talk(person, patience=0, open_uploader=open_uploader)
    assert here.chat.run() == 0
    assert here.agent.heard == [("prompt", "see this"), ("prompt", "and now?")]
    assert [len(uploads) for uploads in here.agent.uploads] == [1, 0]
    assert "a.csv is sent with your next message" in here.noted


def test_a_file_can_be_attached_while_the_agent_works(talk, files):
    folder, open_uploader = files
    here = talk(
        TypedInput("go", meanwhile=[f"/attach {folder}/a.csv", "and this"]), open_uploader=open_uploader
    )
    assert here.chat.run() == 0
    assert [len(uploads) for uploads in here.agent.uploads] == [0, 1]


@pytest.mark.parametrize(
    ("name", "code"), [("odd.csv", "preflight_rejected"), ("none.csv", "file_unreadable")]
)
def test_a_refused_file_is_reported_with_its_code_and_not_sent(talk, files, name, code):
    folder, open_uploader = files
    here = talk(TypedInput(f"/attach {folder}/{name}", "so?"), patience=0, open_uploader=open_uploader)
    assert here.chat.run() == 0
    assert any(note.startswith(f"error: {code}: ") for note in here.noted)
    assert here.agent.uploads == [[]]


def test_leaving_names_attached_files_that_were_not_sent(talk, files):
    folder, open_uploader = files
    here = talk(TypedInput(f"/attach {folder}/a.csv"), open_uploader=open_uploader)
    here.chat.run()
    assert here.noted[-1] == f"not sent: /attach {folder}/a.csv"


def test_a_text_that_is_too_long_for_a_message_goes_as_a_file(talk, files):
    here = talk(TypedInput("x" * 40_000), patience=0, open_uploader=files[1])
    assert here.chat.run() == 0
    ((kind, text),) = here.agent.heard
    assert (kind, len(here.agent.uploads[0])) == ("prompt", 1)
    assert LONG_TEXT in text


@pytest.mark.parametrize(("code", "comes_back"), [("too_large", 1), ("upload_missing", 0)])
def test_a_file_is_restored_with_its_message_unless_the_file_was_refused(talk, files, code, comes_back):
    folder, open_uploader = files
    person = TypedInput(f"/attach {folder}/a.csv", "see this", "again")
    here = talk(person, patience=0, open_uploader=open_uploader)
    refused = []

    def script(request):
        if request["action"] != "send" or refused:
            return here.agent(request)
        refused.append(request)
        return [ErrorFrame(code=code, message="no", message_id=request["message_id"])]

    here.far.script = script
    here.chat.run()
    assert person.given_back == ["see this"]
    assert [len(uploads) for uploads in here.agent.uploads] == [comes_back]


def test_an_unread_long_text_is_restored_whole(talk, files):
    here = talk(TypedInput("go", meanwhile=["y" * 40_000, "/stop"]), patience=9, open_uploader=files[1])
    assert here.chat.run() == 0
    assert here.person.given_back == ["y" * 40_000]
