"""A conversation read as one stream of frames: by any pages, pauses and restarts, while it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepline.adapters.memory.model import Say
from stepline.delivery import stream_page
from stepline.delivery.stream_offset import StreamOffset, parse_offset
from stepline.delivery.stream_page import StreamReader
from stepline.errors import InputError, NotFoundError
from stepline.log.journal import Journal
from stepline.model.program.execution import Run
from stepline.model.wire.event import DeltaFrame, EventFrame, decode_frame
from stepline.ports.executor import Job
from stepline.ports.relay import DELTA_TTL_S
from tests.support.budget import budget
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called, coded
from tests.support.recorded_thread import printing
from tests.support.steered_conversation import SteeredConversation
from tests.support.stream_client import StreamClient

TURN = (
    called(
        "react.write",
        {"path": "a.md", "channel": "canvas", "content": "# One\n" * 9, "kind": "file"},
        notes="I write.",
    ),
    coded("print(1)", "a.csv", notes="I count."),
    answered("Here it is. " * 8, notes="Done."),
)


@contextmanager
def pages_of(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_page, "PAGE_MAX_BYTES", size)
        yield


def talking(piece_chars: int = 7) -> SteeredConversation:
    script = (Say(text=text, piece_chars=piece_chars) for text in (*TURN, *[answered("So it is.")] * 3))
    conversation = SteeredConversation(*script)
    conversation.programs(printing)
    return conversation


places = st.tuples(st.integers(0, 2), st.integers(-1, 60))


@settings(max_examples=budget(10, 500, nightly=100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    reads=st.lists(st.lists(places, max_size=12), min_size=1, max_size=3),
    steer=st.none() | places,
    size=st.sampled_from([1, 300, 2_000, 1_000_000]),
)
def test_reading_in_any_cuts_gives_the_state_of_one_read(
    reads: list[list[tuple[int, int]]], steer: tuple[int, int] | None, size: int
) -> None:
    conversation = talking()
    clients = [StreamClient(conversation) for _ in reads]
    wrong: list[tuple[Any, Any]] = []

    def look(client: StreamClient) -> None:
        client.read()
        fresh = StreamClient(conversation)
        fresh.catch_up()
        texts = fresh.texts() if client.state.claim == fresh.state.claim else {}
        shown = (
            client.texts() if texts else {}
        )  # a stream that was interrupted is shown until the next one begins
        ahead = bool(texts) and client.offset > fresh.offset
        if ahead or not all(texts.get(name, "").startswith(text) for name, text in shown.items()):
            wrong.append((client.offset, shown))

    with pages_of(size):
        for client, looks in zip(clients, reads, strict=True):
            for call, piece in looks:
                conversation.at(piece, lambda client=client: look(client), call=call)
        if steer:
            conversation.at(steer[1], lambda: conversation.steer("Shorter."), call=steer[0])
        conversation.run()
        whole = StreamClient(conversation).catch_up()
        assert [client.catch_up() for client in clients] == [whole] * len(clients)
    assert wrong == []


def test_a_page_is_bounded_and_ends_between_two_frames() -> None:
    conversation = talking()
    client = StreamClient(conversation)
    with pages_of(900):
        conversation.at(50, client.catch_up, call=0)
        conversation.run()
        client.catch_up()
    assert len(client.sizes) > 4
    journal = Journal(conversation.own_ports, LANE, "api")
    largest = max(map(len, StreamReader(journal, USER, StreamOffset()).read().frames))
    assert max(client.sizes) <= max(900, largest)


def test_running_text_arrives_by_its_own_offsets_and_once() -> None:
    conversation, texts = talking(), list[str]()
    client = StreamClient(conversation)

    def note() -> None:
        page = client.read()
        texts.extend(
            frame.text for one in page.frames if (frame := as_delta(one)) and frame.lane == "answer.0"
        )

    for piece in range(70):
        conversation.at(piece, note, call=2)
    conversation.run()
    assert len(texts) > 5
    assert ("Here it is. " * 8).startswith("".join(texts))


def as_delta(frame: bytes) -> DeltaFrame | None:
    found = decode_frame(frame)
    return found if isinstance(found, DeltaFrame) else None


def test_a_reader_that_comes_later_gets_the_events_without_the_running_text() -> None:
    conversation = talking()
    conversation.run()
    journal = Journal(conversation.own_ports, LANE, "api")
    found = [decode_frame(one) for one in StreamReader(journal, USER, StreamOffset()).read().frames]
    assert all(isinstance(frame, EventFrame) for frame in found)


def test_text_that_has_expired_is_left_to_the_events() -> None:
    conversation = talking()
    early, late = StreamClient(conversation), StreamClient(conversation)

    def expire() -> None:
        early.catch_up()
        conversation.clock.pause(DELTA_TTL_S + 1)
        assert early.read().frames == []
        late.catch_up()

    conversation.at(60, expire, call=0)
    conversation.run()
    assert early.texts() == late.texts() == {}
    assert early.catch_up() == late.catch_up() == StreamClient(conversation).catch_up()


def test_the_output_of_a_program_is_running_text() -> None:
    conversation = Conversation(coded("print(1)", "a.csv"), answered("Done."))
    conversation.send()
    client, shown = StreamClient(conversation), list[str]()

    def run(job: Job) -> Run:
        given = printing(job)
        client.catch_up()
        shown.append(client.state.text("exec.0.log"))
        assert client.read().frames == []
        return given

    conversation.programs(run)
    conversation.run()
    assert shown == ["one\ntwo\n"]
    assert client.catch_up() == StreamClient(conversation).catch_up()


def test_a_read_at_the_end_waits_for_the_next_frame() -> None:
    conversation = Conversation(answered("One."))
    conversation.send()
    client = StreamClient(conversation)
    client.catch_up()
    paused = conversation.clock.pause

    def pause(seconds: float) -> None:
        paused(seconds)
        if conversation.clock.monotonic_s() > 5 and conversation.machine.queue:
            conversation.run()

    conversation.clock.pause = pause
    page = client.take(client.reader().wait(20))
    assert page.frames
    assert 5 < conversation.clock.monotonic_s() < 7
    assert client.catch_up() == StreamClient(conversation).catch_up()


def test_a_wait_ends_after_its_time_with_few_reads() -> None:
    conversation = Conversation(answered("One."))
    conversation.send()
    conversation.run()
    client, looks = StreamClient(conversation), list[int]()
    client.catch_up()
    get = conversation.ports.log.get
    conversation.ports.log.get = lambda lane, n, **fields: (looks.append(n), get(lane, n, **fields))[1]  # type: ignore[method-assign]
    began_s = conversation.clock.monotonic_s()
    page = client.take(client.reader().wait(20))
    assert (page.frames, page.ends) == ([], True)
    assert conversation.clock.monotonic_s() - began_s == pytest.approx(20)
    assert len(looks) <= 25


def test_a_conversation_that_is_deleted_ends_the_wait() -> None:
    conversation = Conversation()
    with pytest.raises(NotFoundError):
        StreamReader(Journal(conversation.ports, LANE, "api"), USER, StreamOffset())
    conversation.send()
    with pytest.raises(NotFoundError):
        StreamReader(Journal(conversation.ports, LANE, "api"), "bob", StreamOffset())


@pytest.mark.parametrize(
    ("offset", "code"),
    [
        ("000000000099", "resume_beyond_end"),
        ("000000000001_000000000099_0000000001-1-0", "resume_beyond_end"),
        ("", "bad_offset"),
        ("-2", "bad_offset"),
        ("000000000001_", "bad_offset"),
        ("00000000000\N{ARABIC-INDIC DIGIT ONE}", "bad_offset"),
    ],
)
def test_an_offset_that_the_stream_does_not_have_is_refused(offset: str, code: str) -> None:
    conversation = Conversation()
    conversation.send()
    with pytest.raises(InputError) as refused:
        StreamReader(Journal(conversation.ports, LANE, "api"), USER, parse_offset(offset)).read()
    assert refused.value.reason == code


@given(
    st.builds(
        StreamOffset,
        n=st.integers(0, 10**12 - 1),
        claim=st.integers(1, 10**12 - 1),
        chars=st.integers(0, 10**10 - 1),
        place=st.lists(st.integers(0, 10**9 - 1), min_size=2, max_size=9).map(tuple),
    )
)
def test_an_offset_is_read_as_it_was_written(offset: Any) -> None:
    assert parse_offset(offset.render()) == offset


@pytest.mark.parametrize("piece", [10, 20, 30])
def test_at_most_one_delta_of_each_lane_follows_a_stop(piece: int) -> None:
    conversation, lanes, stops = talking(), Counter[str](), list[int]()
    client = StreamClient(conversation)

    def note() -> None:
        deltas = [frame for one in client.read().frames if (frame := as_delta(one))]
        if stops:
            lanes.update(frame.lane for frame in deltas)

    def stop() -> None:
        conversation.stop()
        stops.append(piece)

    for at in range(60):
        conversation.at(at, note, call=2)
    conversation.at(piece, stop, call=2)
    conversation.run()
    note()
    assert conversation.decided[-1].interrupted
    assert conversation.closed.reason == "stop"
    assert all(count <= 1 for count in lanes.values())
