"""Asking, watching and chatting, with a remote end that has a script."""

from __future__ import annotations

import msgspec
import pytest

from stepline.adapters.system import SystemClock
from stepline.local.client.change import Acknowledged, EventsApplied, Refused, TextAppended, TurnEnded
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState, LaneText
from stepline.local.client.websocket import dial_gateway
from stepline.local.conversation import (
    Bookmark,
    load_bookmark,
    save_bookmark,
    send_and_settle,
    settle,
    watch_conversation,
)
from stepline.local.terminal.chat import INTERRUPTED, Chat
from stepline.local.terminal.keyboard import Pipe
from stepline.local.terminal.turn_view import PlainView
from stepline.model.wire.event import (
    AckFrame,
    ClientEvent,
    DeltaFrame,
    ErrorFrame,
    EventFrame,
    PongFrame,
    SyncFrame,
)
from tests.unit.local.client.answering_gateway import no_api, no_uploader
from tests.unit.local.client.gateway import QUICK

C = "c1"


def opener(gateway):
    dial = dial_gateway(gateway.url, lambda: "t")
    return lambda state: Session(dial, state, SystemClock(), QUICK)


def batch(n, *kinds, prev=None, conversation=C, **data):
    events = tuple(ClientEvent(type=kind, route="", ts="", turn_id=f"turn_{n}", data=data) for kind in kinds)
    return EventFrame(
        conversation=conversation, n=n, prev=n - 1 if prev is None else prev, claim=n, events=events
    )


def ack(request, n, kind="prompt"):
    return AckFrame(
        message_id=request["message_id"], conversation=request["conversation"], n=n, kind=kind, turn_id="t"
    )


def synced(n, *, claim=0):
    return SyncFrame(conversation=C, n=n, claim=claim, open=claim > 0)


def converse(gateway, text="hi", state=None):
    shown = []
    with opener(gateway)(state or ClientState(conversation=C)) as session:
        return send_and_settle(session, session.effects(), text, shown.append), shown


def test_an_answer_ends_the_wait_with_success(gateway):
    gateway.script = lambda r: [batch(1, "chat.start"), ack(r, 1), batch(2, "chat.complete", answer="yes")]
    completed, shown = converse(gateway)
    assert completed
    assert [effect.n for effect in shown if isinstance(effect, EventsApplied)] == [1, 2]


@pytest.mark.parametrize("reason", ["violations", "token_limit"])
def test_a_turn_that_ends_without_an_answer_of_the_models_is_no_success(gateway, reason):
    gateway.script = lambda r: [batch(1, "chat.start"), ack(r, 1), batch(2, "chat.complete", reason=reason)]
    completed, _ = converse(gateway)
    assert not completed
    gateway.script = lambda r: [batch(1, "chat.start"), ack(r, 1), batch(2, "chat.complete", reason="exit")]
    completed, _ = converse(gateway)
    assert completed


def test_a_turn_whose_begin_is_withheld_is_waited_for(gateway):
    gateway.script = lambda r: [batch(1), ack(r, 1), batch(2, "chat.complete", answer="yes")]
    completed, shown = converse(gateway)
    assert completed
    assert isinstance(shown[-1], TurnEnded)


def test_an_error_ends_the_wait_with_failure(gateway):
    gateway.script = lambda r: [batch(1, "chat.start"), ack(r, 1), batch(2, "chat.error", code="internal")]
    assert not converse(gateway)[0]


def test_a_terminal_event_that_overtakes_the_answer_to_the_message_counts(gateway):
    gateway.script = lambda r: [batch(1, "chat.start"), batch(2, "chat.complete"), ack(r, 1)]
    assert converse(gateway)[0]


def test_a_followup_waits_for_the_turn_it_was_promoted_to(gateway):
    answers = {
        "resume": lambda _: [synced(2, claim=1)],
        "send": lambda r: [
            batch(3, "chat.conversation.accepted"),
            ack(r, 3, kind="followup"),
            batch(4, "chat.complete", "chat.start"),
            batch(5, "chat.error", code="internal"),
        ],
    }
    gateway.script = lambda r: answers[r["action"]](r)
    completed, shown = converse(gateway, state=ClientState(conversation=C, cursor=2, open=True))
    assert not completed
    assert [effect.n for effect in shown if isinstance(effect, EventsApplied)] == [3, 4, 5]


def test_an_event_that_opens_no_turn_is_settled_once_it_is_stored(gateway):
    gateway.script = lambda r: [
        msgspec.structs.replace(ack(r, 1, kind="note"), turn_id=""),
        batch(1, "chat.conversation.accepted"),
    ]
    shown = []
    with opener(gateway)(ClientState(conversation=C)) as session:
        message_id = session.tell("note", {"text": "seen"})
        assert settle(session, session.effects(), message_id, shown.append)
    assert [type(effect) for effect in shown] == [Acknowledged, EventsApplied]


def test_a_refused_message_during_the_turn_does_not_end_the_wait(gateway):
    def script(r):
        if r["action"] == "event":
            refusal = ErrorFrame(code="bad_event", message="", message_id=r["message_id"], conversation=C)
            return [refusal, batch(2, "chat.complete")]
        return [batch(1, "chat.start"), ack(r, 1)]

    gateway.script = script
    shown = []
    with opener(gateway)(ClientState(conversation=C)) as session:
        message_id = session.say("hi")
        session.tell("form", {})
        assert settle(session, session.effects(), message_id, shown.append)
    kinds = [type(effect) for effect in shown]
    assert kinds.index(Refused) < kinds.index(TurnEnded) == len(kinds) - 1


def test_a_refusal_after_the_turn_ends_the_wait(gateway):
    def script(r):
        if r["action"] == "event":
            return [ErrorFrame(code="bad_event", message="", message_id=r["message_id"], conversation=C)]
        return [batch(1, "chat.start"), ack(r, 1), batch(2, "chat.complete")]

    gateway.script = script
    with opener(gateway)(ClientState(conversation=C)) as session:
        message_id = session.say("hi")
        session.tell("form", {})
        assert settle(session, session.effects(), message_id, lambda _: None)


def test_a_foreign_conversation_is_not_found(gateway):
    gateway.script = lambda r: [ErrorFrame(code="not_found", message="", message_id=r["message_id"])]
    completed, shown = converse(gateway)
    assert not completed
    assert [effect.frame.code for effect in shown if isinstance(effect, Refused)] == ["not_found"]


@pytest.mark.parametrize("code", ["bad_message", "bad_json", "unknown_action", "message_too_large"])
def test_a_refusal_without_an_id_ends_the_wait_for_the_only_message(gateway, code):
    gateway.script = lambda _: [ErrorFrame(code=code, message="`text` must not be empty")]
    completed, shown = converse(gateway)
    assert completed is False
    assert [effect.frame.code for effect in shown if isinstance(effect, Refused)] == [code]


def test_a_turn_whose_events_cannot_be_had_is_not_waited_for(gateway):
    def script(r):
        if r["action"] == "resume":
            return [ErrorFrame(code="body_missing", message="a body is gone", conversation=C)]
        return [ack(r, 5)]

    gateway.script = script
    completed, shown = converse(gateway, state=ClientState(conversation=C))
    assert completed is False
    assert shown[-1].frame.code == "body_missing"


def test_a_conversation_that_began_anew_under_its_old_name_is_answered_in(gateway):
    def script(r):
        if r["action"] == "resume" and r["after"]:
            refusal = ErrorFrame(code="resume_beyond_end", message="it ends at 2", conversation=C)
            return [refusal]
        if r["action"] == "resume":
            return [batch(1, "chat.start"), batch(2, "chat.complete"), synced(2)]
        return [batch(3, "chat.start"), ack(r, 3), batch(4, "chat.complete", answer="yes")]

    gateway.script = script
    shown = []
    with opener(gateway)(ClientState(conversation=C, cursor=50)) as session:
        effects = session.effects()
        assert watch_conversation(session, effects, shown.append) is False
        assert send_and_settle(session, effects, "hi", shown.append)
    assert [effect.n for effect in shown if isinstance(effect, EventsApplied)] == [1, 2, 3, 4]


def test_watching_begins_where_the_client_was_killed_and_ends_with_the_turn(gateway):
    gateway.script = lambda _: [
        batch(3, "chat.step"),
        DeltaFrame(conversation=C, claim=2, lane="answer", off=4, text="o wor"),
        synced(3, claim=2),
        DeltaFrame(conversation=C, claim=2, lane="answer", off=9, text="ld"),
        batch(4, "chat.complete"),
    ]
    shown = []
    state = ClientState(conversation=C, cursor=2, claim=2, lanes={"answer": LaneText(base=4)})
    with opener(gateway)(state) as session:
        assert watch_conversation(session, session.effects(), shown.append) is True
    assert gateway.heard() == {
        "action": "resume",
        "conversation": C,
        "after": 2,
        "stream": {"claim": 2, "off": {"answer": 4}},
    }


def test_watched_text_continues_at_the_missing_character(gateway):
    gateway.script = lambda _: [
        DeltaFrame(conversation=C, claim=2, lane="answer", off=2, text="llo wor"),
        synced(2, claim=2),
        batch(3, "chat.complete"),
    ]
    shown = []
    state = ClientState(conversation=C, cursor=2, claim=2, lanes={"answer": LaneText(base=4)})
    with opener(gateway)(state) as session:
        watch_conversation(session, session.effects(), shown.append)
    assert [(e.off, e.text) for e in shown if isinstance(e, TextAppended)] == [(4, "o wor")]


def test_watching_an_idle_conversation_ends_after_its_replay(gateway):
    gateway.script = lambda _: [batch(1, "chat.start"), batch(2, "chat.error"), synced(2)]
    with opener(gateway)(ClientState(conversation=C)) as session:
        assert watch_conversation(session, session.effects(), lambda _: None) is False


def test_watching_a_missing_conversation_finds_nothing(gateway):
    gateway.script = lambda _: [ErrorFrame(code="not_found", message="")]
    with opener(gateway)(ClientState(conversation=C)) as session:
        assert watch_conversation(session, session.effects(), lambda _: None) is None


class RemoteEnd:
    """A remote end that answers every message with its own text, and knows a conversation after its first message."""

    def __init__(self):
        self.spoken = {}

    def __call__(self, request):
        name, action = request["conversation"], request["action"]
        if action == "send":
            n = self.spoken[name] = self.spoken.get(name, 0) + 2
            start = batch(n - 1, "chat.start", conversation=name)
            if request["text"] == "fail":
                return [
                    start,
                    ack(request, n - 1),
                    batch(n, "chat.error", conversation=name, code="internal"),
                ]
            done = batch(n, "chat.complete", conversation=name, answer=f"you said {request['text']}")
            return [start, ack(request, n - 1), done]
        if name not in self.spoken:
            return [ErrorFrame(code="not_found", message="", conversation=name)]
        n = self.spoken[name]
        if action == "ping":
            return [PongFrame(conversation=name, n=n)]
        return [SyncFrame(conversation=name, n=n)]


@pytest.fixture
def far(gateway):
    gateway.script = RemoteEnd()
    return gateway


class Talk:
    """A chat whose texts are kept."""

    def __init__(self, gateway, home):
        self.said = []
        self.noted = []
        self.home = home
        self._gateway = gateway

    def run(self, *lines, conversation="", **given):
        view = PlainView(self.said.append, self.noted.append)
        chat = Chat(
            opener(self._gateway),
            view,
            Pipe(iter(lines)),
            open_uploader=no_uploader,
            open_api=no_api,
            user="ann",
            home=self.home,
            **given,
        )
        return chat.run(conversation)


@pytest.fixture
def talk(far, tmp_path):
    return Talk(far, tmp_path)


def test_every_line_of_a_pipe_is_a_turn(talk):
    assert talk.run("one\n", "\n", "two\n") == 0
    assert talk.said == ["\nyou said one", "\nyou said two"]


def test_the_last_turn_decides_the_exit_code(talk):
    assert talk.run("one", "fail") == 1
    assert talk.run("fail", "one") == 0


def test_a_second_chat_continues_the_conversation_and_shows_nothing_twice(talk):
    talk.run("one")
    first = load_bookmark(talk.home, "ann")
    talk.run("two")
    assert talk.said == ["\nyou said one", "\nyou said two"]
    assert load_bookmark(talk.home, "ann") == msgspec.structs.replace(first, cursor=4)
    assert talk.noted[-1].endswith("event 2")


def test_a_slash_command_begins_another_conversation(talk):
    talk.run("one", "/new", "two")
    names = [note.split()[1].rstrip(",") for note in talk.noted]
    assert len(set(names)) == 2
    assert load_bookmark(talk.home, "ann").conversation == names[1]


def test_a_conversation_can_be_named(talk):
    talk.run("one", conversation="mine")
    talk.run("two", conversation="other")
    talk.run("three", conversation="mine")
    assert load_bookmark(talk.home, "ann") == Bookmark(user="ann", conversation="mine", cursor=4)


def test_a_conversation_that_is_gone_is_replaced_by_a_new_one(talk):
    save_bookmark(talk.home, Bookmark(user="ann", conversation="gone", cursor=9))
    assert talk.run("one") == 0
    assert load_bookmark(talk.home, "ann").conversation != "gone"


SHOP = {"": "shop", "docs": "bundles.docs"}


@pytest.mark.parametrize(
    ("first", "second", "goes_on"),
    [
        ({"agents": {"": "bundles.default"}}, {"agents": SHOP}, False),
        ({"agents": SHOP, "bundle": "docs"}, {"agents": SHOP}, True),
        ({"agents": SHOP, "bundle": "docs"}, {"agents": {"": "shop"}}, False),
        ({"agents": SHOP}, {"agents": SHOP}, True),
        ({"agents": SHOP}, {"agents": SHOP, "bundle": "docs"}, False),
        ({}, {}, True),
        ({"agents": SHOP}, {}, True),
    ],
)
def test_a_chat_continues_only_with_a_bundle_of_this_stage(talk, first, second, goes_on):
    talk.run("one", **first)
    before = load_bookmark(talk.home, "ann").conversation
    talk.run("two", **second)
    assert (load_bookmark(talk.home, "ann").conversation == before) is goes_on


def test_another_user_does_not_get_the_conversation(talk):
    save_bookmark(talk.home, Bookmark(user="bob", conversation="his", cursor=9))
    talk.run("one")
    assert load_bookmark(talk.home, "ann").conversation != "his"


def test_a_too_large_message_is_an_error_and_the_chat_continues(talk):
    assert talk.run("x" * 140_000) == 1
    assert any("not_deployed" in note for note in talk.noted)
    assert talk.run("x" * 140_000, "one") == 0


def test_ctrl_c_leaves_and_says_how_to_come_back(talk):
    def lines():
        yield "one"
        raise KeyboardInterrupt

    assert talk.run(*[]) == 0
    view = PlainView(talk.said.append, talk.noted.append)
    chat = Chat(
        opener(talk._gateway),
        view,
        Pipe(lines()),
        open_uploader=no_uploader,
        open_api=no_api,
        user="ann",
        home=talk.home,
        command="bin/stepline chat --user ann",
    )
    assert chat.run() == INTERRUPTED
    conversation = load_bookmark(talk.home, "ann").conversation
    assert (
        talk.noted[-1] == f"left; continue with: bin/stepline chat --user ann --conversation {conversation}"
    )
