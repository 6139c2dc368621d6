"""Every message of the websocket from every other user: denied, as if the conversation were absent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stepline.ingress.delete import apply_deletion
from stepline.ingress.message import receive
from stepline.loop.approvals.approval_policy import ApprovalPolicy
from stepline.model.entry import ApprovalRequested
from stepline.model.wire.client_message import Auth, Watch
from stepline.model.wire.event import ErrorFrame, WatchingFrame
from tests.security.every_message import FIELDS, FOUNDING, KINDS, NAMING, action, good
from tests.security.strangers import OWNERS, STRANGERS, Stranger, asked_by, principal
from tests.support.conversation import FAR, LANE, USER, Conversation, frames
from tests.support.generation import answered, called

WRITE = called("react.write", {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"})
ABSENT = "nobody-has-said-anything-here"


def label(value: Any) -> str:
    return str(value) if isinstance(value, Stranger) else action(value)


of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=action)
of_each_kind_that_names_one = pytest.mark.parametrize("kind", NAMING, ids=action)
of_each_pair = pytest.mark.parametrize(("kind", "stranger"), asked_by(KINDS), ids=label)
of_each_pair_that_names_one = pytest.mark.parametrize(("kind", "stranger"), asked_by(NAMING), ids=label)
by_each_stranger = pytest.mark.parametrize("stranger", STRANGERS, ids=str)


class Private:
    """A conversation of ada's with a turn that has ended and one that waits for her to let a call run; she listens and watches."""

    def __init__(self) -> None:
        self.conversation = Conversation(answered("Hello."), WRITE, answered("Done."))
        policy = ApprovalPolicy(places=({"effect:keyed": "always"},))
        self.conversation.agent = replace(self.conversation.agent, approvals=policy.rule_of)
        self.ports = self.conversation.ports
        self.inbox = self.connect("ada")
        self.conversation.send("hello", id="m0", connection="ada")
        self.conversation.run()
        self.turn = self.conversation.batches()[-1].state.turn
        self.conversation.send("write", connection="ada")
        self.conversation.run()
        (asked,) = self.conversation.entries(ApprovalRequested)
        self.call_id = str(asked.action.call_id)

    def connect(self, connection: str, **who: Any) -> list[bytes]:
        """Open a connection of ada's, or of whom the fields say; return its inbox."""
        inbox = self.conversation.connect(connection)
        self.ports.subscriptions.connect(connection, principal(**who))
        return inbox

    def say(self, kind: type[Any], connection: str, *, conversation: str = LANE.conversation) -> list[Any]:
        """Send a message of this kind; return the frames of the answer."""
        inbox: list[bytes] = self.conversation.app.ports.publisher.inboxes[connection]  # type: ignore[attr-defined]  # the memory twin's own
        inbox.clear()
        ticket = self.ports.tickets.issue(principal())
        message = good(kind, conversation=conversation, call_id=self.call_id, ticket=ticket, turn=self.turn)
        receive(self.ports, connection, json.dumps(message))
        return frames(inbox)

    def stored(self) -> list[Any]:
        """Return everything that others might have changed."""
        found: Any = self.ports.log.listing(LANE)
        audience = self.ports.subscriptions.audience(LANE, USER)
        return [self.conversation.batches(), found, audience, self.ports.subscriptions.listeners(LANE)]


def nameless(found: list[Any], conversation: str) -> list[Any]:
    """Return errors without the name that was asked for, and of other frames the kind."""
    return [
        msgspec.structs.replace(one, conversation=one.conversation.replace(conversation, ""))
        if isinstance(one, ErrorFrame)
        else type(one)
        for one in found
    ]


def test_no_kind_of_message_is_left_out_of_these_tests() -> None:
    assert set(FIELDS) == set(KINDS)


@pytest.mark.parametrize("owner", OWNERS, ids=str)
@of_each_kind
def test_the_owner_is_answered_in_every_role(kind: type[Any], owner: Stranger) -> None:
    private = Private()
    private.connect("ada", **owner._asdict())
    found = private.say(kind, "ada")
    assert found
    assert not [frame for frame in found if isinstance(frame, ErrorFrame)]


@of_each_pair_that_names_one
def test_anothers_conversation_is_answered_like_one_that_never_was(
    kind: type[Any], stranger: Stranger
) -> None:
    private = Private()
    private.connect("eve", **stranger._asdict())
    before = private.stored()
    foreign = private.say(kind, "eve")
    assert private.stored() == before
    if kind in FOUNDING and (stranger.tenant, stranger.project) == (LANE.tenant, LANE.project):
        # A free name would begin a conversation: a taken one is refused as any other message to a free one is.
        (error,) = foreign
        assert (error.code, error.message) == ("not_found", "no such conversation")
        return
    absent = private.say(kind, "eve", conversation=ABSENT)
    assert nameless(foreign, LANE.conversation) == nameless(absent, ABSENT)
    if kind not in FOUNDING:
        (error,) = foreign
        assert (error.code, error.message) == ("not_found", "no such conversation")


@of_each_pair_that_names_one
def test_foreign_and_absent_names_are_refused_in_the_same_words(kind: type[Any], stranger: Stranger) -> None:
    """A turn that waits, one that is over, and a conversation that was deleted: a stranger's answer is the same."""
    answers = []
    for fate in ("waits", "over", "deleted"):
        private = Private()
        private.connect("eve", **stranger._asdict())
        if fate == "over":
            private.say(next(one for one in KINDS if action(one) == "approve"), "ada")
            private.conversation.run()
        elif fate == "deleted":
            apply_deletion(private.ports, LANE, USER)
        answers.append(nameless(private.say(kind, "eve"), LANE.conversation))
    assert answers[0] == answers[1] == answers[2]


@of_each_kind_that_names_one
def test_the_owner_gets_a_frame_about_the_deleted_conversation(kind: type[Any]) -> None:
    private = Private()
    apply_deletion(private.ports, LANE, USER)
    (error,) = private.say(kind, "ada")
    assert (error.code, error.retryable) == ("conversation_deleted", False)


@of_each_pair
def test_a_denied_connection_gets_no_later_frames(kind: type[Any], stranger: Stranger) -> None:
    private = Private()
    inbox = private.connect("eve", **stranger._asdict())
    private.say(kind, "eve")
    private.conversation.machine.queue.clear()  # a turn of their own, elsewhere
    inbox.clear()
    private.say(next(one for one in KINDS if action(one) == "approve"), "ada")
    private.conversation.run()
    assert private.conversation.state.status == "idle"
    assert inbox == []


@by_each_stranger
def test_a_foreign_ticket_takes_over_no_connection(stranger: Stranger) -> None:
    private = Private()
    private.connect("eve", **stranger._asdict())
    (error,) = private.say(Auth, "eve")
    assert (error.code, error.message) == ("unauthorized", "the ticket is not valid")
    assert private.ports.subscriptions.principal("eve") == principal(**stranger._asdict())


@by_each_stranger
def test_a_feed_is_the_callers_own(stranger: Stranger) -> None:
    private = Private()
    private.connect("eve", **stranger._asdict())
    before = private.ports.subscriptions.audience(LANE, USER)
    assert private.say(Watch, "eve") == [WatchingFrame(expires_at=FAR)]
    assert private.ports.subscriptions.audience(LANE, USER) == before


@of_each_kind
def test_an_expired_token_says_nothing_but_its_renewal(kind: type[Any]) -> None:
    private = Private()
    now_s = int(private.conversation.clock.now().timestamp())
    private.connect("late", expires_at=now_s)
    before = private.stored()
    (frame,) = private.say(kind, "late")
    assert private.stored() == before
    assert kind is Auth or (isinstance(frame, ErrorFrame) and frame.code == "auth_expired")


@of_each_kind
def test_an_unauthorized_connection_belongs_to_no_user(kind: type[Any]) -> None:
    private = Private()
    private.conversation.app.ports.publisher.open("stranger")  # type: ignore[attr-defined]  # the memory twin's own
    before = private.stored()
    (error,) = private.say(kind, "stranger")
    assert (error.code, error.message) == ("unauthorized", "this connection is not known")
    assert private.stored() == before


@pytest.mark.parametrize("field", ["tenant", "project", "user", "role"])
@of_each_kind
def test_no_message_names_its_sender(kind: type[Any], field: str) -> None:
    private = Private()
    inbox = private.connect("eve", user="eve")
    message = {**good(kind, conversation=LANE.conversation), field: getattr(principal(), field)}
    receive(private.ports, "eve", json.dumps(message))
    (error,) = frames(inbox)
    assert isinstance(error, ErrorFrame)
    assert error.code == "bad_message"
