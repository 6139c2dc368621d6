import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import DependencyError
from stepline.model.wire.event import (
    FORMAT,
    FRAME_MAX_BYTES,
    AckFrame,
    ClientEvent,
    DeltaFrame,
    ErrorFrame,
    EventFrame,
    Frame,
    PongFrame,
    SyncFrame,
    decode_frame,
    encode_frame,
    frame_events,
    is_unknown_kind,
    join_pieces,
)

texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=200),
    st.builds(
        lambda chars, count: chars * count,
        st.sampled_from(["x", "ü", "🦜", "\0", "\x1f", '"', "\\", '\\"\n']),
        st.integers(1_000, 60_000),
    ),
)
events = st.lists(
    st.builds(
        ClientEvent,
        type=st.just("chat.complete"),
        route=st.just("chat"),
        ts=st.just("2026-01-01T00:00:00.000Z"),
        data=st.dictionaries(st.sampled_from(["answer", "text"]), texts, max_size=2),
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@given(events)
def test_events_arrive_unchanged_over_any_number_of_frames(found: tuple[ClientEvent, ...]) -> None:
    framed = [
        decode_frame(encode_frame(f))
        for f in frame_events("c" * 64, n=10**12, prev=10**12, claim=10**12, events=found)
    ]
    assert all(isinstance(frame, EventFrame) for frame in framed)
    whole = [frame for frame in framed if isinstance(frame, EventFrame)]
    got = whole[0].events if len(whole) == 1 else join_pieces([frame.piece for frame in whole])
    assert got == found
    assert [(frame.part, frame.parts) for frame in whole] == [(i + 1, len(whole)) for i in range(len(whole))]


@given(events)
def test_no_frame_exceeds_the_frame_limit_of_a_socket(found: tuple[ClientEvent, ...]) -> None:
    for frame in frame_events("c" * 64, n=10**12, prev=10**12, claim=10**12, events=found):
        assert len(encode_frame(frame)) <= FRAME_MAX_BYTES


def test_a_small_batch_is_one_frame_that_says_so() -> None:
    (frame,) = frame_events("c", n=3, prev=2, claim=1, events=(ClientEvent(type="t", route="r", ts="now"),))
    assert (frame.part, frame.parts, frame.piece) == (1, 1, "")


FRAMES: list[Frame] = [
    EventFrame(conversation="c", n=2, prev=1),
    DeltaFrame(conversation="c", claim=1, lane="answer.0", off=0, text="hi"),
    SyncFrame(conversation="c", n=2),
    AckFrame(message_id="m", conversation="c", n=1, kind="prompt"),
    ErrorFrame(code="busy", message="Again, please."),
    PongFrame(conversation="c", n=2),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_is_decoded_to_its_own_type(frame: Frame) -> None:
    assert decode_frame(encode_frame(frame)) == frame
    assert decode_frame(encode_frame(frame).decode()) == frame


def test_a_client_reads_a_frame_of_a_later_release() -> None:
    body = b'{"frame": "pong", "conversation": "c", "n": 2, "mood": "fine"}'
    assert decode_frame(body) == PongFrame(conversation="c", n=2)


def test_an_invalid_frame_is_refused() -> None:
    for body in (b"", b"{}", b'{"frame": "unknown"}', b'{"frame": "pong"}'):
        with pytest.raises(msgspec.DecodeError):
            decode_frame(body)


def test_the_first_format_version_is_not_sent():
    frame = EventFrame(conversation="c", n=1, prev=0)
    assert b'"v"' not in encode_frame(frame)
    assert decode_frame(encode_frame(frame)).v == 1


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ('{"frame": "news", "v": 7}', True),
        ('{"frame": "events", "conversation": 7}', False),
        ('{"message": "Internal server error", "requestId": "r"}', False),
        ('{"frame": 7}', False),
        ("Forbidden", False),
    ],
)
def test_an_unknown_frame_kind_is_distinguished_from_gateway_messages(text, unknown):
    assert is_unknown_kind(text) is unknown


@pytest.mark.parametrize("events", ["[]", '{"in": "another shape"}'])
def test_events_of_a_later_format_are_refused_in_any_shape(events):
    text = f'{{"frame": "events", "conversation": "c", "n": 2, "prev": 1, "v": {FORMAT + 1}, "events": {events}}}'
    with pytest.raises(DependencyError, match="update it") as refused:
        decode_frame(text)
    assert refused.value.reason == "format_newer"


@pytest.mark.parametrize(
    "text",
    [
        '{"message": "Internal server error", "requestId": "r"}',
        '{"frame": "news", "v": 7}',
        '{"frame": "events", "conversation": 7, "n": 1, "prev": 0}',
        '{"frame": "events", "conversation": "c", "n": 1, "prev": 0, "v": "2"}',
    ],
)
def test_an_invalid_frame_is_not_mistaken_for_a_later_format(text):
    with pytest.raises(msgspec.ValidationError):
        decode_frame(text)
