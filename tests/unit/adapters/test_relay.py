import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from stepline.adapters import relay
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryMeter
from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.memory.relay import MemoryRelay
from stepline.adapters.relay import BACKOFF_S, LISTENERS_S, POSTS_PER_S, ThreadedRelay
from stepline.adapters.system import SystemClock
from stepline.delivery.post_pace import POST_INTERVAL_S
from stepline.errors import DependencyError
from stepline.metrics import POSTS_OVER_LIMIT
from stepline.model.ids import Lane
from stepline.model.usage import ModelCall, Usage
from stepline.model.wire.event import DELTA_CHARS, DeltaFrame, decode_frame
from stepline.ports.channel import OVER_LIMIT, Feed
from stepline.ports.relay import Delta

LANE = Lane(tenant="acme", project="support", conversation="c-1")
CLAIM = 7
WAIT_S = 60


class Clock(SystemClock):
    """The machine's clock, advanced by `ahead_s`."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


class Deltas(MemoryDeltas):
    """Stores pieces, or fails the next puts if the test says so."""

    fails = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.together: list[tuple[Delta, ...]] = []
        self.refused = 0

    def note(self, lane: Lane, claim: int, call: ModelCall) -> None:
        if self.refused:
            self.refused -= 1
            raise DependencyError("throttled")
        super().note(lane, claim, call)

    def put(self, lane: Lane, claim: int, *deltas: Delta) -> None:
        if self.fails:
            self.fails -= 1
            raise DependencyError("throttled")
        self.together.append(deltas)
        super().put(lane, claim, *deltas)


class Subscriptions(MemorySubscriptions):
    """Answers, or fails the next calls if the test says so; drops nothing once `keeps` is set."""

    fails = 0
    keeps = False

    def drop(self, lane: Lane, connection: str, *, watcher: str = "") -> None:
        if self.keeps:
            raise DependencyError("throttled")
        super().drop(lane, connection, watcher=watcher)

    def listeners(self, lane: Lane) -> list[str]:
        if self.fails:
            self.fails -= 1
            raise DependencyError("throttled")
        return super().listeners(lane)


class Publisher(MemoryPublisher):
    """Posts, unless a connection cannot keep up; `posted` wakes a test that waits for the next frame."""

    def __init__(self) -> None:
        super().__init__()
        self.slow: set[str] = set()
        self.code = "dependency"
        self.tries: list[str] = []
        self.posted = threading.Condition()

    def post(self, connection: str, frame: bytes) -> None:
        with self.posted:
            self.tries.append(connection)
            self.posted.notify_all()
            if connection in self.slow:
                raise DependencyError("cannot keep up", code=self.code)
            super().post(connection, frame)

    def wait(self, reached: Callable[[], Any]) -> None:
        with self.posted:
            assert self.posted.wait_for(reached, WAIT_S)


class RelayFixture:
    def __init__(self) -> None:
        self.clock = Clock()
        self.deltas = Deltas(self.clock)
        self.subscriptions = Subscriptions(self.clock)
        self.publisher = Publisher()
        self.meter = MemoryMeter()
        self.relay = ThreadedRelay(
            deltas=self.deltas,
            subscriptions=self.subscriptions,
            publisher=self.publisher,
            clock=self.clock,
            meter=self.meter,
        )

    def listen(self, connection: str) -> list[bytes]:
        self.subscriptions.subscribe(LANE, connection, 2**40, "ada")
        return self.publisher.open(connection)

    def stored(self) -> dict[str, str]:
        return joined([(piece.name, piece.off, piece.text) for piece in self.deltas.since(LANE, CLAIM)])


def posted(inbox: list[bytes]) -> list[tuple[str, int, str]]:
    frames = [decode_frame(body) for body in inbox]
    assert all(isinstance(frame, DeltaFrame) and frame.claim == CLAIM for frame in frames)
    return [(frame.lane, frame.off, frame.text) for frame in frames]  # type: ignore[union-attr]  # asserted above


def joined(pieces: list[tuple[str, int, str]]) -> dict[str, str]:
    """Return each lane's text, joined by offset; a hole or an overlap fails."""
    texts: dict[str, str] = {}
    for name, off, text in pieces:
        assert off == len(texts.get(name, ""))
        texts[name] = texts.get(name, "") + text
    return texts


@pytest.fixture
def fixture() -> RelayFixture:
    return RelayFixture()


def test_pushed_text_is_posted_and_stored_unchanged(fixture: RelayFixture) -> None:
    inboxes = [fixture.listen("k1"), fixture.listen("k2")]
    stream = fixture.relay.open(LANE, CLAIM)
    for i in range(500):
        stream.push("thinking.0", f"{i} ")
        stream.push("answer.0", f"<{i}>🦜")
    stream.close()
    whole = {
        "thinking.0": "".join(f"{i} " for i in range(500)),
        "answer.0": "".join(f"<{i}>🦜" for i in range(500)),
    }
    assert fixture.stored() == whole
    assert [joined(posted(inbox)) for inbox in inboxes] == [whole, whole]


def test_small_pieces_go_out_together(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    stream = fixture.relay.open(LANE, CLAIM)
    for _ in range(2000):
        stream.push("answer.0", "x")
    stream.close()
    assert joined(posted(inbox)) == {"answer.0": "x" * 2000}
    assert len(inbox) < 1000
    assert len(fixture.deltas.since(LANE, CLAIM)) < 1000


def test_short_lanes_are_stored_together(fixture: RelayFixture) -> None:
    stream = fixture.relay.open(LANE, CLAIM)
    for lane in range(12):
        stream.push(f"notes.{lane}", f"lane {lane}")
    stream.push("canvas.0", "x" * (DELTA_CHARS + 1))
    stream.close()
    assert fixture.stored() == {
        **{f"notes.{lane}": f"lane {lane}" for lane in range(12)},
        "canvas.0": "x" * (DELTA_CHARS + 1),
    }
    assert len(fixture.deltas.together) <= 6
    assert max(sum(len(piece.text) for piece in row) for row in fixture.deltas.together) == DELTA_CHARS


def test_no_piece_is_larger_than_a_frame_should_be(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    stream = fixture.relay.open(LANE, CLAIM)
    text = "".join(chr(97 + i % 26) for i in range(5 * DELTA_CHARS + 1))
    stream.push("answer.0", text)
    stream.close()
    assert fixture.stored() == joined(posted(inbox)) == {"answer.0": text}
    assert max(len(piece.text) for piece in fixture.deltas.since(LANE, CLAIM)) == DELTA_CHARS
    assert max(len(text) for _, _, text in posted(inbox)) == DELTA_CHARS


def test_the_memory_relay_cuts_a_long_piece_at_the_same_characters(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    memory = MemoryRelay(
        deltas=MemoryDeltas(fixture.clock), subscriptions=fixture.subscriptions, publisher=fixture.publisher
    )
    text = "\x01" * (5 * DELTA_CHARS + 1)  # six bytes a character of a frame
    for relay_of_kind in (fixture.relay, memory):
        stream = relay_of_kind.open(LANE, CLAIM)
        stream.push("answer.0", text)
        stream.close()
    deployed, in_process = posted(inbox)[:6], posted(inbox)[6:]
    assert in_process == deployed
    assert memory.deltas.since(LANE, CLAIM) == fixture.deltas.since(LANE, CLAIM)


def test_text_is_posted_while_the_model_still_generates(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "early")
    fixture.publisher.wait(lambda: inbox)
    assert joined(posted(inbox)) == {"answer.0": "early"}
    stream.push("answer.0", " late")
    stream.close()
    assert joined(posted(inbox)) == {"answer.0": "early late"}


def test_an_empty_stream_posts_and_stores_nothing(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    fixture.relay.open(LANE, CLAIM).close()
    assert (inbox, fixture.stored()) == ([], {})


def test_text_is_stored_even_without_a_listener(fixture: RelayFixture) -> None:
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "for later")
    stream.close()
    assert fixture.stored() == {"answer.0": "for later"}


class Channel:
    """A broadcast next to the connections, which fails the next calls if the test says so."""

    fails = 0

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, lane: Lane, frames: Sequence[bytes], feed: Feed | None = None) -> None:
        if self.fails:
            self.fails -= 1
            raise DependencyError("the channel is unavailable")
        assert lane == LANE
        self.frames += frames


@pytest.mark.parametrize("listeners", [0, 2])
def test_posted_text_is_also_broadcast_with_any_number_of_listeners(
    fixture: RelayFixture, listeners: int
) -> None:
    channel = Channel()
    inboxes = [fixture.listen(f"k{number}") for number in range(listeners)]
    stream = replace(fixture.relay, broadcast=channel).open(LANE, CLAIM)
    stream.push("answer.0", "a" * (3 * DELTA_CHARS))
    stream.close()
    assert joined(posted(channel.frames)) == {"answer.0": "a" * (3 * DELTA_CHARS)}
    assert inboxes == [channel.frames] * listeners


def test_a_stream_that_ends_too_late_posts_nothing_more(
    fixture: RelayFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "CLOSE_S", 0.0)
    fixture.listen("k1")
    with fixture.publisher.posted:  # the gateway does not answer
        stream = fixture.relay.open(LANE, CLAIM)
        stream.push("answer.0", "a" * (3 * DELTA_CHARS))
        stream.close()
    stream._thread.join(WAIT_S)
    assert not stream._thread.is_alive()
    assert len(fixture.publisher.tries) <= 1
    assert fixture.stored() == {}


def test_no_connection_waits_for_the_broadcast(fixture: RelayFixture) -> None:
    inbox, before = fixture.listen("k1"), []

    class Late(Channel):
        def send(self, lane: Lane, frames: Sequence[bytes], feed: Feed | None = None) -> None:
            before.append(list(inbox))
            super().send(lane, frames)

    late = Late()
    stream = replace(fixture.relay, broadcast=late).open(LANE, CLAIM)
    stream.push("answer.0", "a" * (2 * DELTA_CHARS))
    stream.close()
    assert before == [late.frames[:1], late.frames[:2]]


def test_a_failing_broadcast_does_not_block_posts_or_stores(fixture: RelayFixture) -> None:
    channel, inbox = Channel(), fixture.listen("k1")
    channel.fails = 1
    stream = replace(fixture.relay, broadcast=channel).open(LANE, CLAIM)
    stream.push("answer.0", "a" * (2 * DELTA_CHARS))
    stream.close()
    assert joined(posted(inbox)) == fixture.stored() == {"answer.0": "a" * (2 * DELTA_CHARS)}
    assert [off for _, off, _ in posted(channel.frames)] == [DELTA_CHARS]


def test_a_closed_connection_loses_its_subscription_and_others_are_unaffected(
    fixture: RelayFixture,
) -> None:
    inbox = fixture.listen("here")
    fixture.listen("gone")
    fixture.publisher.close("gone")
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "a" * (3 * DELTA_CHARS))
    stream.close()
    assert fixture.subscriptions.listeners(LANE) == ["here"]
    assert fixture.publisher.tries.count("gone") == 1
    assert joined(posted(inbox)) == fixture.stored()


def test_a_connection_that_cannot_keep_up_is_left_alone_and_then_sees_the_gap(fixture: RelayFixture) -> None:
    slow, fast = fixture.listen("slow"), fixture.listen("fast")
    fixture.publisher.slow.add("slow")
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "lost ")
    fixture.publisher.wait(lambda: len(fast) == 1)
    stream.push("answer.0", "not even tried ")
    fixture.publisher.wait(lambda: len(fast) == 2)
    assert fixture.publisher.tries.count("slow") == 1
    fixture.publisher.slow.clear()
    fixture.clock.ahead_s += BACKOFF_S
    stream.push("answer.0", "seen")
    stream.close()
    assert posted(slow) == [("answer.0", len("lost not even tried "), "seen")]
    assert joined(posted(fast)) == fixture.stored() == {"answer.0": "lost not even tried seen"}


def test_a_piece_that_the_rate_refuses_is_sent_with_the_next_one(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    fixture.publisher.slow.add("k1")
    fixture.publisher.code = OVER_LIMIT
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "not lost ")
    fixture.publisher.wait(lambda: len(fixture.publisher.tries) == 3)
    assert inbox == []
    assert fixture.relay.pace.interval_s > POST_INTERVAL_S
    fixture.publisher.slow.clear()
    stream.push("answer.0", "but late")
    stream.close()
    assert joined(posted(inbox)) == {"answer.0": "not lost but late"}
    assert fixture.meter.counts[POSTS_OVER_LIMIT] >= 3


def test_one_slow_connection_of_three_is_not_treated_as_the_rate_limit(fixture: RelayFixture) -> None:
    _, *inboxes = (fixture.listen(name) for name in ("slow", "k1", "k2"))
    fixture.publisher.slow.add("slow")
    fixture.publisher.code = OVER_LIMIT
    stream = fixture.relay.open(LANE, CLAIM)
    for number in range(3):
        stream.push("answer.0", f"{number} ")
        fixture.publisher.wait(lambda: len(inboxes[0]) == number + 1)  # noqa: B023 - called only in this iteration
    stream.close()
    assert [joined(posted(inbox)) for inbox in inboxes] == [{"answer.0": "0 1 2 "}] * 2
    assert fixture.publisher.tries.count("slow") == 1
    assert fixture.relay.pace.interval_s == POST_INTERVAL_S


def test_a_temporary_store_failure_loses_no_text(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    fixture.deltas.fails = 1
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "a" * DELTA_CHARS)
    fixture.publisher.wait(lambda: inbox)
    stream.push("answer.0", "b" * DELTA_CHARS)
    fixture.publisher.wait(lambda: len(inbox) >= 2)
    stream.close()
    assert fixture.deltas.fails == 0
    assert joined(posted(inbox)) == fixture.stored() == {"answer.0": "a" * DELTA_CHARS + "b" * DELTA_CHARS}


def test_a_settled_stream_posts_its_end_and_stores_no_more_text(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "a" * DELTA_CHARS)
    fixture.publisher.wait(lambda: inbox)
    stream.note(made(50))
    stream.push("answer.0", "the end")
    stream.settle()
    stream.close()
    assert joined(posted(inbox)) == {"answer.0": "a" * DELTA_CHARS + "the end"}
    assert fixture.stored() == {"answer.0": "a" * DELTA_CHARS}
    assert fixture.deltas.notes(LANE, CLAIM) == {CLAIM: [made(50)]}


def test_listeners_that_cannot_be_read_for_a_moment_are_read_again(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    fixture.subscriptions.fails = 1
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "first ")
    fixture.publisher.wait(lambda: inbox)
    stream.close()
    assert joined(posted(inbox)) == fixture.stored() == {"answer.0": "first "}


def test_a_closed_connection_that_cannot_be_dropped_does_not_affect_others(fixture: RelayFixture) -> None:
    inbox = fixture.listen("here")
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "first ")
    fixture.publisher.wait(lambda: inbox)
    fixture.listen("gone")
    fixture.publisher.close("gone")
    fixture.subscriptions.keeps = True
    fixture.clock.ahead_s += LISTENERS_S
    stream.push("answer.0", "second ")
    fixture.publisher.wait(lambda: "gone" in fixture.publisher.tries)
    stream.push("answer.0", "third")
    stream.close()
    assert joined(posted(inbox)) == fixture.stored() == {"answer.0": "first second third"}


def test_a_store_that_fails_for_good_neither_reaches_the_writer_nor_the_listeners(
    fixture: RelayFixture, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = fixture.listen("k1")
    fixture.deltas.fails = 10**9
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "secret words")
    stream.close()
    assert joined(posted(inbox)) == {"answer.0": "secret words"}
    assert fixture.stored() == {}
    assert caplog.records
    assert "secret" not in caplog.text


def test_pieces_are_less_frequent_with_more_listeners(fixture: RelayFixture) -> None:
    inboxes = [fixture.listen(f"c{number}") for number in range(20 * POSTS_PER_S)]
    stream = fixture.relay.open(LANE, CLAIM)
    stream.push("answer.0", "a")
    fixture.publisher.wait(lambda: inboxes[-1])
    for ahead_s, text in ((5.0, "b"), (5.0, "c"), (20.0, "d")):
        fixture.clock.ahead_s += ahead_s
        stream.push("answer.0", text)
    fixture.publisher.wait(lambda: len(inboxes[-1]) == 2)
    stream.close()
    for inbox in inboxes:
        assert [text for _, _, text in posted(inbox)] == ["a", "bcd"]


def made(output: int) -> ModelCall:
    used = Usage(input_tokens=9, output_tokens=output)
    return ModelCall(role="decide", model="m", usage=used, id="a")


def test_a_noted_call_is_stored_in_its_latest_form_and_not_posted(fixture: RelayFixture) -> None:
    inbox = fixture.listen("k1")
    stream = fixture.relay.open(LANE, CLAIM)
    stream.note(made(1))
    stream.push("answer.0", "text")
    stream.note(made(50))
    stream.close()
    assert fixture.deltas.notes(LANE, CLAIM) == {CLAIM: [made(50)]}
    assert joined(posted(inbox)) == fixture.stored() == {"answer.0": "text"}


def test_a_note_that_the_table_refuses_is_stored_at_the_next_interval(fixture: RelayFixture) -> None:
    fixture.deltas.refused = 1
    stream = fixture.relay.open(LANE, CLAIM)
    stream.note(made(1))
    fixture.listen("k1")
    stream.push("answer.0", "text")
    fixture.publisher.wait(lambda: fixture.publisher.tries)
    stream.close()
    assert fixture.deltas.notes(LANE, CLAIM) == {CLAIM: [made(1)]}
