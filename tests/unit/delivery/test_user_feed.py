"""The feed of a user's conversations: its frames for watchers, and its cost without watchers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stepline.adapters.memory.channel import MemorySubscriptions
from stepline.delivery.effect import publish
from stepline.events.filter import EventFilter, EventRule
from stepline.ingress.message import receive
from stepline.ingress.rename import rename
from stepline.metrics import SOCKETS_GONE
from stepline.model.ids import Lane
from stepline.model.wire.event import ErrorFrame, EventFrame, FeedFrame, WatchingFrame
from stepline.ports.channel import Audience, Principal
from tests.support.api_caller import Caller
from tests.support.conversation import FAR, LANE, USER, Conversation, frames, of
from tests.support.generation import answered, called

READ = called("react.read", {"paths": ["fi:x"]})


def watching(conversation: Conversation, connection: str = "w1", **fields: Any) -> list[bytes]:
    """Return the inbox of a connection that watches the user's conversations."""
    inbox = conversation.connect(connection, **fields)
    receive(conversation.ports, connection, json.dumps({"action": "watch"}))
    return inbox


def fed(inbox: list[bytes]) -> list[tuple[int, list[str]]]:
    """Return the feed's content: the number of each batch, and states or titles."""
    return [
        (frame.n, [event.data.get("state") or event.data["title"] for event in frame.events])
        for frame in of(FeedFrame, inbox)
    ]


def test_watching_is_confirmed_and_the_feed_shows_every_conversation() -> None:
    conversation = Conversation(READ, answered("Nothing."))
    inbox = watching(conversation)
    assert frames(inbox) == [WatchingFrame(expires_at=FAR)]
    conversation.send("what is new?")
    conversation.run()
    (_, first), (last, end) = fed(inbox)
    assert first == ["created", "what is new?", "in_progress"]
    assert (last, end) == (conversation.tail.n, ["idle"])
    assert of(EventFrame, inbox) == []


def test_new_conversations_and_titles_reach_all_watching_devices() -> None:
    conversation = Conversation(answered("One."), answered("Two."))
    inboxes = [watching(conversation, name) for name in ("w1", "w2")]
    conversation.send(connection="other")
    conversation.run()
    rename(conversation.ports, LANE, "Mine", user=USER)
    for inbox in inboxes:
        assert fed(inbox)[-1] == (conversation.tail.n, ["Mine"])


def test_a_listening_watcher_gets_the_events_and_then_the_feed() -> None:
    conversation = Conversation(answered("One."))
    inbox = watching(conversation)
    conversation.send(connection="w1")
    kinds = [type(frame) for frame in frames(inbox)]
    assert kinds == [WatchingFrame, EventFrame, FeedFrame]


def test_a_republished_batch_sends_the_same_feed_again() -> None:
    conversation = Conversation(answered("One."))
    inbox = watching(conversation)
    conversation.send()
    (_, once) = inbox
    publish(conversation.ports, LANE, conversation.batches()[0])
    assert inbox[-1] == once


def test_a_read_position_reaches_the_users_other_devices() -> None:
    conversation = Conversation(answered("One."))
    conversation.send()
    conversation.run()
    inbox, n = watching(conversation), conversation.tail.n
    answer = Caller(conversation.ports).ask("PUT", f"/v1/conversations/{LANE.conversation}/read", {"n": n})
    assert answer.status == 204
    assert frames(inbox)[1:] == [FeedFrame(conversation=LANE.conversation, read_n=n)]


@pytest.mark.parametrize(
    "who", [{"user": "eve"}, {"tenant": "umbrella"}, {"project": "sales"}], ids=lambda who: next(iter(who))
)
def test_other_users_get_nothing_from_a_feed(who: dict[str, str]) -> None:
    conversation = Conversation(answered("Private."))
    principal = Principal(
        **{"tenant": LANE.tenant, "project": LANE.project, "user": USER, **who}, expires_at=FAR
    )
    inbox = conversation.connect("w1")
    conversation.ports.subscriptions.connect("w1", principal)
    receive(conversation.ports, "w1", json.dumps({"action": "watch"}))
    conversation.send()
    conversation.run()
    Caller(conversation.ports).ask("PUT", f"/v1/conversations/{LANE.conversation}/read", {"n": 1})
    assert [type(frame) for frame in frames(inbox)] == [WatchingFrame]


def test_withheld_events_are_not_in_the_feed() -> None:
    conversation = Conversation(answered("One."))
    rule = EventRule(types=frozenset({"chat.start", "conv.status"}))
    conversation.ports = replace(conversation.ports, outward=EventFilter((rule,)))
    inbox = watching(conversation)
    conversation.send("a secret title")
    assert [states for _, states in fed(inbox)] == [["created", "in_progress"]]


def test_the_feed_ends_with_the_token_and_a_renewal_prolongs_it() -> None:
    conversation = Conversation(answered("One."), answered("Two."))
    ends_at = int(conversation.clock.now().timestamp()) + 60
    short, long = (watching(conversation, name, expires_at=ends_at) for name in ("w1", "w2"))
    later = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR)
    ticket = conversation.ports.tickets.issue(later)
    receive(conversation.ports, "w2", json.dumps({"action": "auth", "ticket": ticket}))
    conversation.clock.pause(61)
    conversation.send()
    assert fed(short) == []
    assert len(fed(long)) == 1
    receive(conversation.ports, "w1", json.dumps({"action": "watch"}))
    assert [frame.code for frame in of(ErrorFrame, short)] == ["auth_expired"]


def test_a_watcher_that_has_gone_is_forgotten() -> None:
    conversation = Conversation(answered("One."))
    watching(conversation)
    conversation.app.ports.publisher.close("w1")  # type: ignore[attr-defined]  # the memory twin's own
    conversation.send()
    assert conversation.ports.subscriptions.audience(LANE, USER) == ([], [])
    assert conversation.app.ports.meter.counts[SOCKETS_GONE] == 1  # type: ignore[attr-defined]  # the memory twin's own


class Counting(MemorySubscriptions):
    """Counts the lookups of listeners."""

    asked = 0

    def listeners(self, lane: Lane) -> list[str]:
        self.asked += 1
        return super().listeners(lane)

    def audience(self, lane: Lane, user: str) -> Audience:
        self.asked += 1
        return super().audience(lane, user)


def test_a_turn_looks_up_its_audience_once_per_batch() -> None:
    counts = []
    for watches in (False, True):
        conversation = Conversation(READ, answered("Nothing."))
        counting = Counting(conversation.clock)
        posting = replace(conversation.ports.broadcast, subscriptions=counting)  # type: ignore[type-var]  # the gateway's
        conversation.ports = replace(conversation.ports, subscriptions=counting, broadcast=posting)
        if watches:
            watching(conversation)
        conversation.send()
        while conversation.machine.queue:
            _, step = conversation.take()
            conversation.drive(step)
        counts.append(counting.asked)
    assert counts[0] == counts[1] > 0
