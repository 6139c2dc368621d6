"""A client that is served from a feed gets the same as a client of the gateway, even over a lossy feed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import Say
from stepline.delivery.follow import follow
from stepline.errors import NotFoundError
from stepline.local.client.state import ClientState
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.model.wire.event import DeltaFrame, EventFrame, SyncFrame, decode_frame
from tests.support.conversation import LANE, USER, Conversation, durable, frames, of
from tests.support.fold import fold_frames
from tests.support.generation import answered, said

LONG = f'{{"action": "complete", "final_answer": "{"🦀" * 20_000}"}}'


class GrowingLog(MemoryLog):
    """A log that shows only the batches up to `shown`; all of them if that is None."""

    shown: int | None = None

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        found = super().since(lane, n, upto=upto, consistent=consistent)
        return [batch for batch in found if self.shown is None or batch.n <= self.shown]

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        return next(reversed(self.since(lane, 0)), None)


class Tape:
    """A feed with recorded frames; the log grows to its state at the time of each frame."""

    def __init__(self, log: GrowingLog, items: Iterable[bytes | int | None]) -> None:
        self._log = log
        self._items = iter(items)
        self.open = False

    def __enter__(self) -> Self:
        self.open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.open = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes | None:
        for item in self._items:
            if not isinstance(item, int):
                return item
            self._log.shown = item
        raise StopIteration

    def end(self) -> None:
        self._items = iter(())


@cache
def finished_conversation() -> tuple[Conversation, GrowingLog, list[bytes]]:
    """Return a conversation of three turns, one of which ends in several frames, and its live frames."""
    log = GrowingLog()
    conversation = Conversation(
        answered("one"), Say(text=said(LONG), piece_chars=1000), answered("three"), log=log
    )
    live = conversation.listen("k1")
    for i in range(3):
        conversation.send(f"question {i}", id=f"m{i}")
        conversation.run()
    return conversation, log, live


def followed(items: Iterable[bytes | int | None], **client: Any) -> list[bytes]:
    conversation, log, _ = finished_conversation()
    log.shown = None
    return list(follow(conversation.ports, Tape(log, items), LANE, user=USER, **client))


def grown(body: bytes) -> list[int]:
    """Return the newest batch of the log when a frame was sent."""
    frame = decode_frame(body)
    return [frame.n] if isinstance(frame, EventFrame) else []


def everything() -> list[tuple[int, tuple[Any, ...]]]:
    return durable(finished_conversation()[2])


def test_the_conversation_of_these_tests_has_a_batch_in_parts() -> None:
    assert max(frame.parts for frame in of(EventFrame, finished_conversation()[2])) > 2


def test_a_new_client_gets_the_whole_log_and_a_sync() -> None:
    got = followed([None])
    assert durable(got) == everything()
    assert isinstance(frames(got)[-1], SyncFrame)


def test_live_frames_are_passed_on_unchanged() -> None:
    _, _, live = finished_conversation()
    items: list[bytes | int | None] = [0, None]
    for body in live:
        items += [*grown(body), body]
    got = [body for body in followed(items) if not isinstance(decode_frame(body), SyncFrame)]
    assert durable(got) == everything()
    assert of(DeltaFrame, got) == of(DeltaFrame, live)


def test_an_event_after_a_gap_brings_the_missing_ones_at_once() -> None:
    _, _, live = finished_conversation()
    last = next(body for body in reversed(live) if grown(body))
    got = followed([0, None, *grown(last), last])
    assert durable(got) == everything()
    assert len(of(SyncFrame, got)) == 2


def test_a_quiet_period_after_live_events_ends_with_a_sync() -> None:
    conversation, _, live = finished_conversation()
    items: list[bytes | int | None] = [0, None]
    for body in live:
        items += [*grown(body), body]
    *_, sync = of(SyncFrame, followed([*items, None]))
    assert (sync.n, sync.open, sync.claim) == (conversation.tail.n, False, conversation.state.claim)


def test_duplicate_frames_cause_no_read_of_the_log() -> None:
    _, _, live = finished_conversation()
    items: list[bytes | int | None] = [0, None]
    for body in live:
        items += [*grown(body), body, body]
    got = followed(items)
    assert durable(got) == everything()
    assert len(of(SyncFrame, got)) == 1


@given(st.dictionaries(st.integers(0, 99), st.sampled_from(["lost", "twice", "cut"]) | st.integers(0, 99)))
def test_every_event_is_sent_once_in_order_over_a_lossy_feed(
    fates: dict[int, str | int],
) -> None:
    _, _, live = finished_conversation()
    items: list[bytes | int | None] = [0, None]
    for at, body in enumerate(live):
        items += grown(body)
        match fates.get(at, "passes"):
            case "passes":
                items.append(body)
            case "twice":
                items += [body, body]
            case "cut":
                items.append(None)
            case int() as late:
                items += [body, live[late % (at + 1)]]
    got = followed([*items, None])
    assert durable(got) == everything()
    text: dict[tuple[int, str], str] = {}
    for frame in of(DeltaFrame, got):
        so_far = text.get((frame.claim, frame.lane), "")
        assert frame.off == len(so_far)
        text[frame.claim, frame.lane] = so_far + frame.text
    whole, _ = fold_frames(ClientState(conversation=LANE.conversation), frames(live))
    folded, _ = fold_frames(ClientState(conversation=LANE.conversation), frames(got))
    assert (folded.cursor, folded.open) == (whole.cursor, whole.open)


@given(st.integers(0, 9))
def test_a_client_with_a_part_of_the_log_gets_the_rest(after: int) -> None:
    assert durable(followed([None], after=after)) == [(n, events) for n, events in everything() if n > after]


def test_text_that_was_lost_is_read_from_the_store() -> None:
    conversation = Conversation()
    conversation.send()
    claim = conversation.state.claim
    stream = conversation.ports.relay.open(LANE, claim)
    live = conversation.listen("k1")
    for piece in ("one ", "two ", "three"):
        stream.push("answer", piece)
    log = GrowingLog()
    got = list(
        follow(conversation.ports, Tape(log, [live[2]]), LANE, user=USER, claim=claim, have={"answer": 4})
    )
    assert of(DeltaFrame, got) == [
        DeltaFrame(conversation="c-1", claim=claim, lane="answer", off=4, text="two three")
    ]


def test_text_that_a_client_has_is_not_sent_again() -> None:
    conversation = Conversation()
    conversation.send()
    claim = conversation.state.claim
    live = conversation.listen("k1")
    conversation.ports.relay.open(LANE, claim).push("answer", "one two")
    log = GrowingLog()
    got = list(
        follow(conversation.ports, Tape(log, live * 2), LANE, user=USER, claim=claim, have={"answer": 4})
    )
    assert of(DeltaFrame, got) == [
        DeltaFrame(conversation="c-1", claim=claim, lane="answer", off=4, text="two")
    ]


@pytest.mark.parametrize("lane", [LANE, Lane(tenant="acme", project="support", conversation="none")])
def test_a_foreign_conversation_cannot_be_followed(lane: Lane) -> None:
    conversation, log, _ = finished_conversation()
    log.shown = None
    tape = Tape(log, [None])
    with pytest.raises(NotFoundError):
        next(follow(conversation.ports, tape, lane, user="mallory"))
    assert not tape.open


def test_the_feed_is_subscribed_before_the_log_is_read() -> None:
    conversation, log, _ = finished_conversation()
    log.shown = None
    order: list[str] = []

    class Recording(Tape):
        def __enter__(self) -> Self:
            order.append("subscribed")
            return super().__enter__()

    class Reading(GrowingLog):
        def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
            order.append("read strongly" if consistent else "read")
            return log.tail(lane, consistent=consistent)

    ports = replace(conversation.ports, log=Reading())
    list(follow(ports, Recording(log, []), LANE, user=USER))
    assert order == ["subscribed", "read strongly"]
