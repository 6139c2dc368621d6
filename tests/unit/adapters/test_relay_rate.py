"""A thousand conversations that stream at once, each in its own process, against the rate of one account."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, NamedTuple

import pytest

from stepline.adapters import relay
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.relay import ThreadedRelay, ThreadedRelayStream
from stepline.delivery import post_pace
from stepline.delivery.post_pace import (
    MOST_INTERVAL_S,
    POST_INTERVAL_S,
    PostPace,
    faster,
    least_interval_s,
    slower,
)
from stepline.delivery.posting import GatewayBroadcast
from stepline.errors import DependencyError
from stepline.metrics import POSTS_OVER_LIMIT
from stepline.model.ids import Lane
from stepline.model.wire.event import DeltaFrame, decode_frame
from stepline.ports.channel import OVER_LIMIT
from tests.support.budget import budget

CONVERSATIONS, RATE_S = budget((250, 625), (1_000, 2_500))
"""The number of concurrent streams, and the rate of a smaller region; a landing simulates a quarter of both."""
SLOT_S: Final = 0.1
SPEAKS_S: Final = 8
CHARS_S: Final = 240
EVENT_EVERY_S: Final = 2.0
LATER_S: Final = range(3, SPEAKS_S)
"""The seconds after all streams have started and found their pace."""


class Time(MemoryClock):
    """The time of one process: it is set to the shared time, and advances on its own while the process waits."""

    def set(self, at_s: float) -> None:
        self._passed_s = at_s


class Gateway(MemoryPublisher):
    """Accepts a maximum of posts in each tenth of a second, from any sender in any order, and refuses the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s: Callable[[], float] = float
        self.taken: Counter[int] = Counter()
        self.tried: Counter[int] = Counter()

    def post(self, connection: str, frame: bytes) -> None:
        slot = int(self.now_s() / SLOT_S)
        self.tried[int(slot * SLOT_S)] += 1
        if self.taken[slot] >= RATE_S * SLOT_S:
            raise DependencyError("the rate is reached", code=OVER_LIMIT)
        self.taken[slot] += 1
        super().post(connection, frame)


class Process:
    """One conversation's Decide: a model that generates evenly, and a batch with events now and then."""

    def __init__(self, number: int, gateway: Gateway, begins_s: float) -> None:
        self.clock, self.meter, self.gateway = Time(), MemoryMeter(), gateway
        self.clock.set(begins_s)
        lane = Lane(tenant="acme", project="p", conversation=f"c-{number}")
        subscriptions = MemorySubscriptions(self.clock)
        subscriptions.subscribe(lane, lane.conversation, 2**40, "ada")
        self.inbox, self.lane, self.begins_s, self.said, self.events = (
            gateway.open(lane.conversation),
            lane,
            begins_s,
            0,
            0,
        )
        shared = PostPace()
        self.posting = GatewayBroadcast(
            subscriptions=subscriptions, publisher=gateway, meter=self.meter, clock=self.clock, pace=shared
        )
        made = ThreadedRelay(
            deltas=MemoryDeltas(self.clock),
            subscriptions=subscriptions,
            publisher=gateway,
            clock=self.clock,
            meter=self.meter,
            pace=shared,
        )
        self.stream = ThreadedRelayStream(made, lane, 1)

    def speak(self, at_s: float, *, ended: bool) -> float:
        """Push the model's text so far, and let the relay do the due work; return the time of the next due work."""
        self._is_now(at_s)
        until = int((at_s - self.begins_s) * CHARS_S)
        self.stream.push("answer.0", "x" * (until - self.said))
        self.said = until
        self.stream.take(0)
        self.stream.work(at_s, ended=ended)
        return self.stream.due_s()

    def post_batch(self, at_s: float) -> float:
        """Post a batch's events; return the time of the next batch."""
        self._is_now(at_s)
        self.posting.send(self.lane, [b"{event %d}" % self.events])
        self.events += 1
        return at_s + EVENT_EVERY_S

    def _is_now(self, at_s: float) -> None:
        self.clock.set(at_s)
        self.gateway.now_s = self.clock.monotonic_s

    def heard(self) -> tuple[int, int]:
        """Return the characters that arrived without a gap, and the number of events."""
        chars = events = 0
        for body in self.inbox:
            if body.startswith(b"{event"):
                events += 1
                continue
            frame = decode_frame(body)
            assert isinstance(frame, DeltaFrame)
            assert frame.off <= chars
            chars = max(chars, frame.off + len(frame.text))
        return chars, events


class Load(NamedTuple):
    gateway: Gateway
    processes: list[Process]


def play(conversations: int) -> Load:
    """Start all of them within a second and let them stream for a while; no thread, no real time."""
    gateway = Gateway()
    processes = [Process(number, gateway, number / conversations) for number in range(conversations)]
    order = count()
    coming = [(one.begins_s, next(order), one, False) for one in processes]
    coming += [(one.begins_s + n / conversations, next(order), one, True) for n, one in enumerate(processes)]
    heapq.heapify(coming)
    while coming:
        at_s, _, one, is_batch = heapq.heappop(coming)
        ended = at_s >= one.begins_s + SPEAKS_S
        next_s = one.post_batch(at_s) if is_batch else one.speak(at_s, ended=ended)
        if not ended:
            latest_s = one.begins_s + SPEAKS_S
            heapq.heappush(coming, (min(max(next_s, at_s + 0.001), latest_s), next(order), one, is_batch))
    return Load(gateway, processes)


@pytest.fixture(scope="module")
def crowd() -> Iterator[Load]:
    return play(CONVERSATIONS)


def test_the_posts_of_many_conversations_stay_near_the_rate_and_use_it(crowd):
    tried = [crowd.gateway.tried[second] for second in LATER_S]
    taken = sum(crowd.gateway.taken[slot] for slot in range(int(LATER_S[0] / SLOT_S), int(SPEAKS_S / SLOT_S)))
    assert sum(tried) <= 1.2 * RATE_S * len(LATER_S)
    assert taken >= 0.9 * RATE_S * len(LATER_S)


def test_text_arrives_without_gaps_and_rarely_later_than_the_longest_interval(crowd):
    missing = sorted(one.said - one.heard()[0] for one in crowd.processes)
    assert missing[len(missing) // 2] == 0
    assert missing[len(missing) * 95 // 100] <= MOST_INTERVAL_S * CHARS_S


def test_the_events_of_the_log_are_not_starved_by_running_text(crowd):
    sent = sum(one.events for one in crowd.processes)
    heard = sum(one.heard()[1] for one in crowd.processes)
    assert heard >= 0.99 * sent


def test_refused_posts_are_counted(crowd):
    counted = sum(one.meter.counts[POSTS_OVER_LIMIT] for one in crowd.processes)
    assert counted == sum(crowd.gateway.tried.values()) - sum(crowd.gateway.taken.values()) > 0


def test_a_few_conversations_are_not_slowed_down():
    load = play(CONVERSATIONS // 20)
    assert {one.stream.relay.pace.interval_s for one in load.processes} == {POST_INTERVAL_S}
    assert [one.said - one.heard()[0] for one in load.processes] == [0] * len(load.processes)


def test_an_interval_grows_to_two_seconds_and_shrinks_again():
    interval_s = POST_INTERVAL_S
    for _ in range(10):
        longer_s = slower(interval_s)
        assert interval_s < longer_s or interval_s == MOST_INTERVAL_S
        interval_s = longer_s
    assert interval_s == MOST_INTERVAL_S
    for _ in range(100):
        interval_s = faster(interval_s)
    assert interval_s == POST_INTERVAL_S


def test_a_bound_on_open_turns_is_a_bound_on_the_posts_of_their_text():
    for turns in (0, 1, 96, 700, 5_000):
        least_s = least_interval_s(turns)
        assert turns / least_s <= 1.001 * post_pace.ACCOUNT_POSTS_PER_S * post_pace.TEXT_PART
        paced = PostPace(least_s)
        paced.refused()
        for _ in range(200):
            paced.went_out()
        assert paced.interval_s == least_s
    assert least_interval_s(96) == POST_INTERVAL_S == relay.POST_FIRST_S
