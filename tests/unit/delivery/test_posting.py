"""Posting: every connection gets its frames in order, and none waits long for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.parallel import ParallelPosts
from stepline.delivery.post_pace import POST_INTERVAL_S, SCATTER, slower
from stepline.delivery.posting import PAUSES_S, QUIET_S, GatewayBroadcast, PostAll, in_turn
from stepline.errors import DependencyError
from stepline.metrics import FRAMES_POSTED, POSTS_OVER_LIMIT, SOCKETS_GONE
from stepline.model.ids import Lane
from stepline.ports.channel import OVER_LIMIT
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

FRAMES = [b"1", b"2", b"3"]


class Publisher(MemoryPublisher):
    """Fails to post to a connection for the number of tries in `busy`; `tries` counts them all."""

    def __init__(self) -> None:
        super().__init__()
        self.code = "dependency"
        self.busy: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()

    def post(self, connection: str, frame: bytes) -> None:
        self.tries[connection] += 1
        if self.busy[connection]:
            self.busy[connection] -= 1
            raise DependencyError("cannot keep up", code=self.code)
        super().post(connection, frame)


class Subscriptions(MemorySubscriptions):
    """Drops nothing once `keeps` is set."""

    keeps = False

    def drop(self, lane: Lane, connection: str, *, watcher: str = "") -> None:
        if self.keeps:
            raise DependencyError("throttled")
        super().drop(lane, connection, watcher=watcher)


class RemoteEnd:
    """Some connections, all listening."""

    def __init__(self, *connections: str, post_all: PostAll = in_turn) -> None:
        self.clock, self.meter, self.publisher = MemoryClock(), MemoryMeter(), Publisher()
        self.subscriptions = Subscriptions(self.clock)
        self.posting = GatewayBroadcast(
            subscriptions=self.subscriptions,
            publisher=self.publisher,
            meter=self.meter,
            clock=self.clock,
            post_all=post_all,
        )
        self.inboxes = {name: self.publisher.open(name) for name in connections}
        for name in connections:
            self.subscriptions.subscribe(LANE, name, 2**40, USER)

    def send(self, frames: list[bytes] = FRAMES) -> float:
        """Send; return the time that it took."""
        began_s = self.clock.monotonic_s()
        self.posting.send(LANE, frames)
        return self.clock.monotonic_s() - began_s


@pytest.mark.parametrize("post_all", [in_turn, ParallelPosts()])
def test_every_listener_gets_every_frame_in_order(post_all: PostAll) -> None:
    far = RemoteEnd("a", "b", post_all=post_all)
    assert far.send() == 0.0
    assert far.inboxes == {"a": FRAMES, "b": FRAMES}
    assert far.meter.counts[FRAMES_POSTED] == 6


def test_a_connection_is_retried_from_the_frame_that_failed() -> None:
    far = RemoteEnd("slow", "well")
    far.publisher.busy["slow"] = 2
    assert 0.0 < far.send() <= sum(PAUSES_S)
    assert far.inboxes == {"slow": FRAMES, "well": FRAMES}
    assert far.publisher.tries == {"slow": 5, "well": 3}


def test_a_slow_connection_is_skipped_and_delays_no_other_for_long() -> None:
    far = RemoteEnd("slow", "slower", "well")
    far.publisher.busy.update(slow=1000, slower=1000)
    assert far.send() <= sum(PAUSES_S)
    assert far.inboxes == {"slow": [], "slower": [], "well": FRAMES}
    assert far.publisher.tries["slow"] == 1 + len(PAUSES_S)


def test_a_frame_that_the_rate_refuses_is_counted_and_slows_running_text_down() -> None:
    far = RemoteEnd("a", "b", "c")
    far.publisher.code = OVER_LIMIT
    far.publisher.busy.update(a=1, b=1)
    far.send()
    assert far.inboxes == {"a": FRAMES, "b": FRAMES, "c": FRAMES}
    assert far.meter.counts[POSTS_OVER_LIMIT] == 2
    assert SCATTER * slower(POST_INTERVAL_S) <= far.posting.pace.interval_s <= slower(POST_INTERVAL_S)


def test_one_slow_connection_of_three_does_not_slow_text_down() -> None:
    far = RemoteEnd("slow", "b", "c")
    far.publisher.code = OVER_LIMIT
    far.publisher.busy.update(slow=1000)
    far.send()
    assert far.posting.pace.interval_s == POST_INTERVAL_S


def test_a_skipped_connection_gets_one_try_per_batch_until_it_accepts() -> None:
    far = RemoteEnd("slow")
    far.publisher.busy["slow"] = 2 + len(PAUSES_S)
    far.send()
    assert far.send() == 0.0
    assert far.send() == 0.0
    assert far.inboxes["slow"] == FRAMES
    far.publisher.busy["slow"] = 1
    assert far.send() > 0.0
    assert far.inboxes["slow"] == FRAMES * 2


def test_a_connection_skipped_long_ago_is_waited_for_again() -> None:
    far = RemoteEnd("slow")
    far.publisher.busy["slow"] = 1 + len(PAUSES_S)
    far.send()
    far.clock.pause(QUIET_S + 1)
    far.publisher.busy["slow"] = 1
    far.send()
    assert far.inboxes["slow"] == FRAMES


@pytest.mark.parametrize("keeps", [False, True])
def test_a_gone_connection_is_unsubscribed_and_others_get_everything(keeps: bool) -> None:
    far = RemoteEnd("gone", "here")
    far.publisher.close("gone")
    far.subscriptions.keeps = keeps
    assert far.send() == 0.0
    assert far.inboxes["here"] == FRAMES
    assert far.subscriptions.listeners(LANE) == (["gone", "here"] if keeps else ["here"])
    assert far.meter.counts[SOCKETS_GONE] == 1
    assert far.meter.counts[FRAMES_POSTED] == 3


def test_a_connection_that_ends_while_it_is_waited_for_is_dropped() -> None:
    far = RemoteEnd("slow")
    far.publisher.busy["slow"] = 1
    pause = far.clock.pause

    def close(seconds: float) -> None:
        far.publisher.close("slow")
        pause(seconds)

    far.clock.pause = close  # type: ignore[method-assign]  # the connection ends in the pause
    far.send()
    assert far.subscriptions.listeners(LANE) == []


def test_a_gateway_that_answers_late_is_asked_once_a_batch() -> None:
    far = RemoteEnd("a", "b")
    far.publisher.busy.update(a=1000, b=1000)
    post = far.publisher.post

    def late(connection: str, frame: bytes) -> None:
        far.clock.pause(5.0)
        post(connection, frame)

    far.publisher.post = late  # type: ignore[method-assign]  # each answer takes its time
    assert far.send() == 10.0
    assert far.publisher.tries == {"a": 1, "b": 1}


@given(
    busy=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 12), max_size=4),
    gone=st.sets(st.sampled_from("abcd"), max_size=2),
    batches=st.integers(1, 4),
)
def test_each_connection_gets_a_prefix_of_each_batch(
    busy: dict[str, int], gone: set[str], batches: int
) -> None:
    far = RemoteEnd(*"abcd")
    far.publisher.busy.update(busy)
    for name in gone:
        far.publisher.close(name)
    for number in range(batches):
        far.send([b"%d.%d" % (number, part) for part in range(3)])
    for name in set("abcd") - gone:
        inbox = far.inboxes[name]
        for number in range(batches):
            got = [frame for frame in inbox if frame.startswith(b"%d." % number)]
            assert got == [b"%d.%d" % (number, part) for part in range(len(got))]
            assert len(got) == 3 or busy.get(name)
        assert inbox == sorted(inbox)


def test_a_step_continues_if_the_listeners_are_unknown() -> None:
    conversation = Conversation(answered("Hello."))
    inbox = conversation.connect("a")
    conversation.send(connection="a")
    for read in ("listeners", "audience"):
        failing(conversation, read)
    conversation.run()
    assert conversation.state.status == "idle"
    assert len(inbox) == 1


def failing(conversation: Conversation, name: str) -> None:
    def fail(*_: object) -> list[str]:
        raise DependencyError("throttled")

    twin: Callable[..., list[str]] = fail
    setattr(conversation.ports.subscriptions, name, twin)
