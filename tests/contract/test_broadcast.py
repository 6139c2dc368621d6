"""Frames reach every follower of a conversation in order, through the gateway or Redis; lost ones are in the log."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.redis.broadcast import Broadcasts, RedisBroadcast
from stepline.adapters.redis.connection import RedisLink
from stepline.delivery.follow import follow
from stepline.delivery.posting import GatewayBroadcast
from stepline.errors import DependencyError
from stepline.model.ids import Lane
from stepline.ports.channel import POST_MAX_BYTES, Broadcast, Feed
from tests.support.conversation import LANE, USER, Conversation, durable
from tests.support.generation import answered

from .redis_server import RedisServer

PATIENCE_S = 60.0
FAR = 2**40
QUIET_S = 0.05
AWAY_S = 0.01


class Heard:
    """The frames that a follower got so far."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self._changed = threading.Condition()

    def take(self, frame: bytes) -> None:
        with self._changed:
            self.frames.append(frame)
            self._changed.notify_all()

    def wait_for(self, enough: Callable[[list[bytes]], bool]) -> list[bytes]:
        with self._changed:
            assert self._changed.wait_for(lambda: enough(self.frames), PATIENCE_S), self.frames
            return list(self.frames)

    def wait(self, count: int) -> list[bytes]:
        return self.wait_for(lambda frames: len(frames) >= count)


class Gateway:
    """Connections of the memory twins."""

    def __init__(self) -> None:
        clock = MemoryClock()
        self.subscriptions, self.publisher = MemorySubscriptions(clock), MemoryPublisher()
        self.broadcast: Broadcast = GatewayBroadcast(
            subscriptions=self.subscriptions, publisher=self.publisher, meter=MemoryMeter(), clock=clock
        )
        self._names = iter("abcdefgh")

    def join(self, lane: Lane) -> Heard:
        heard, name = Heard(), next(self._names)
        heard.frames = self.publisher.open(name)
        self.subscriptions.subscribe(lane, name, FAR, USER)
        return heard

    def leave(self, heard: Heard) -> None:
        name = next(name for name, inbox in self.publisher.inboxes.items() if inbox is heard.frames)
        self.publisher.close(name)


class Channel:
    """Followers in threads, over a real server."""

    def __init__(self, broadcast: RedisBroadcast) -> None:
        self.broadcast = broadcast
        self._ends: dict[int, Callable[[], None]] = {}

    def join(self, lane: Lane) -> Heard:
        heard, there = Heard(), threading.Event()
        following = self.broadcast.follow(lane)

        def hear() -> None:
            with following as frames:
                for frame in frames:
                    there.set()
                    if frame is not None:
                        heard.take(frame)

        thread = threading.Thread(target=hear)
        thread.start()
        assert there.wait(PATIENCE_S)

        def end() -> None:
            following.end()
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

        self._ends[id(heard)] = end
        return heard

    def leave(self, heard: Heard) -> None:
        self._ends.pop(id(heard))()

    def close(self) -> None:
        for end in self._ends.values():
            end()


def broadcast_by(server: RedisServer) -> RedisBroadcast:
    return RedisBroadcast(link=RedisLink(lambda: server.url, stage="test"), quiet_s=QUIET_S, away_s=AWAY_S)


@pytest.fixture
def redis_broadcast(redis_server) -> Iterator[RedisBroadcast]:
    made = broadcast_by(redis_server)
    with closing(made.link):
        yield made


@pytest.fixture(params=["gateway", "redis_server", "tls_server"])
def way(request) -> Iterator[Gateway | Channel]:
    if request.param == "gateway":
        yield Gateway()
        return
    made = broadcast_by(request.getfixturevalue(request.param))
    with closing(made.link), closing(Channel(made)) as channel:
        yield channel


@pytest.fixture
def other(lane) -> Lane:
    return Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")


def numbered(count: int) -> list[bytes]:
    return [b"frame %d" % i for i in range(count)]


def test_every_follower_gets_frames_in_the_order_of_sending(way, lane):
    followers = [way.join(lane), way.join(lane)]
    way.broadcast.send(lane, numbered(100))
    way.broadcast.send(lane, [b"last"])
    for heard in followers:
        assert heard.wait(101) == [*numbered(100), b"last"]


def test_frames_of_another_conversation_do_not_come(way, lane, other):
    ours, theirs = way.join(lane), way.join(other)
    way.broadcast.send(other, numbered(3))
    way.broadcast.send(lane, [b"ours"])
    assert theirs.wait(3) == numbered(3)
    assert ours.wait(1) == [b"ours"]


def test_a_conversation_of_another_tenant_or_project_is_another_conversation(way, lane):
    ours = way.join(lane)
    for stranger in (
        Lane(tenant=lane.tenant + "x", project=lane.project, conversation=lane.conversation),
        Lane(tenant=lane.tenant, project=lane.project + "x", conversation=lane.conversation),
    ):
        way.broadcast.send(stranger, [b"theirs"])
    way.broadcast.send(lane, [b"ours"])
    assert ours.wait(1) == [b"ours"]


def test_a_broadcast_without_followers_has_no_effect(way, lane):
    way.broadcast.send(lane, numbered(3))
    heard = way.join(lane)
    way.broadcast.send(lane, [b"now"])
    assert heard.wait(1) == [b"now"]


def test_one_that_is_gone_keeps_no_other_from_its_frames(way, lane):
    gone, stays = way.join(lane), way.join(lane)
    way.broadcast.send(lane, [b"one"])
    assert (gone.wait(1), stays.wait(1)) == ([b"one"], [b"one"])
    way.leave(gone)
    way.broadcast.send(lane, [b"two"])
    assert stays.wait(2) == [b"one", b"two"]


def test_the_largest_frames_come_whole(way, lane):
    heard = way.join(lane)
    big = [bytes([65 + i]) * POST_MAX_BYTES for i in range(8)]
    way.broadcast.send(lane, big)
    assert heard.wait(8) == big


def test_bytes_of_every_value_come_as_they_are(way, lane):
    heard = way.join(lane)
    frames = [bytes(range(256)), b"", "grüß dich\r\n".encode()]
    way.broadcast.send(lane, frames)
    assert heard.wait(3) == frames


# --- Redis alone


def test_a_follower_is_called_at_the_start_and_after_each_silence(redis_broadcast, lane):
    with redis_broadcast.follow(lane) as frames:
        assert next(frames) is None
        redis_broadcast.send(lane, [b"one"])
        assert next(frame for frame in frames if frame is not None) == b"one"
        assert next(frames) is None


def test_another_thread_can_end_a_follower(redis_broadcast, lane):
    patient = RedisBroadcast(link=redis_broadcast.link, quiet_s=3600.0, away_s=3600.0)
    with patient.follow(lane) as frames:
        ender = threading.Thread(target=frames.end)
        ender.start()
        assert list(frames) in ([], [None])
        ender.join()


def test_a_dead_server_stops_neither_senders_nor_followers(lane, caplog):
    dead = RedisBroadcast(link=RedisLink(lambda: "redis://127.0.0.1:1", stage="test"), away_s=0.0)
    dead.send(lane, numbered(3))
    dead.send(lane, numbered(3))
    with dead.follow(lane) as frames:
        assert [next(frames) for _ in range(3)] == [None, None, None]
    assert caplog.messages == ["redis not reached"]


def test_two_servers_of_different_stages_do_not_hear_each_other(redis_server, redis_broadcast, lane):
    with closing(RedisLink(lambda: redis_server.url, stage="prod")) as link:
        RedisBroadcast(link=link).send(lane, [b"theirs"])
        with redis_broadcast.follow(lane) as frames:
            RedisBroadcast(link=link).send(lane, [b"theirs"])
            redis_broadcast.send(lane, [b"ours"])
            assert next(frame for frame in frames if frame is not None) == b"ours"


# --- both


class Refusing:
    """A broadcast that cannot find the followers."""

    def send(self, lane: Lane, frames: object, feed: Feed | None = None) -> None:
        raise DependencyError("unknown followers", code="refused")


@pytest.mark.parametrize("at", [0, 1])
def test_a_failing_broadcast_is_logged_and_the_others_still_run(lane, at):
    gateway = Gateway()
    heard = gateway.join(lane)
    ways: list[Broadcast] = [gateway.broadcast]
    ways.insert(at, Refusing())
    with pytest.raises(DependencyError) as refused:
        Broadcasts(tuple(ways)).send(lane, numbered(2))
    assert refused.value.reason == "refused"
    assert heard.wait(2) == numbered(2)


def test_a_dead_server_keeps_no_connection_from_its_frames(lane):
    gateway = Gateway()
    heard = gateway.join(lane)
    dead = RedisBroadcast(link=RedisLink(lambda: "redis://127.0.0.1:1", stage="test"))
    Broadcasts((dead, gateway.broadcast)).send(lane, numbered(2))
    assert heard.wait(2) == numbered(2)


def test_a_server_that_is_cut_off_gives_its_client_every_event_once_and_in_order(
    redis_server, redis_broadcast
):
    conversation = Conversation(*[answered(f"answer {i}") for i in range(4)])
    conversation.ports = replace(
        conversation.ports, broadcast=Broadcasts((redis_broadcast, conversation.ports.broadcast))
    )
    at_gateway = conversation.listen("k1")

    def turn(i: int) -> None:
        conversation.send(f"question {i}", id=f"m{i}")
        conversation.run()

    turn(0)
    client, following = Heard(), redis_broadcast.follow(LANE)

    def serve() -> None:
        for frame in follow(conversation.ports, following, LANE, user=USER):
            client.take(frame)

    def knows_all(frames: list[bytes]) -> bool:
        return len(durable(frames)) == len(durable(at_gateway))

    server = threading.Thread(target=serve)
    server.start()
    try:
        client.wait_for(knows_all)
        turn(1)
        client.wait_for(knows_all)
        redis_server.stop()
        try:
            turn(2)
        finally:
            redis_server.start()
        turn(3)
        frames = client.wait_for(knows_all)
    finally:
        following.end()
        server.join(PATIENCE_S)
    assert not server.is_alive()
    assert durable(frames) == durable(at_gateway)
    assert [n for n, _ in durable(frames)] == [batch.n for batch in conversation.batches()]
