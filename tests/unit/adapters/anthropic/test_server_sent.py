"""The bytes of a stream, read as server-sent events, however they are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.anthropic.message_fold import (
    OTHER,
    UNREAD_EVENT,
    WireEvent,
    decode_events,
    read_wire_events,
)
from stepline.adapters.provider import server_sent
from stepline.adapters.provider.server_sent import split_events
from stepline.errors import ModelStreamBroken

LINES = st.sampled_from([b"data: one", b"data:two", b"data", b"event: x", b": comment", b"id: 7", b"", b""])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(ends)]


@given(
    lines=st.lists(LINES, max_size=12),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    places=st.lists(st.integers(min_value=0, max_value=10_000), max_size=8),
)
def test_a_stream_holds_the_same_events_wherever_it_is_cut(
    lines: list[bytes], newline: bytes, places: list[int]
) -> None:
    data = b"".join(line + newline for line in lines)
    plain: list[bytes] = []
    event: list[bytes] = []
    for line in lines:
        if line.startswith(b"data:"):
            event.append(line[5:].strip())
        elif not line and event:
            plain.append(b"\n".join(event))
            event = []
    plain += [b"\n".join(event)] * bool(event)
    assert [sent.data for sent in split_events(cut(data, places))] == plain


@pytest.mark.parametrize("chunk", [b"x" * 1000, b"data: x\n", b"data:\n"], ids=repr)
def test_an_event_without_an_end_is_malformed(monkeypatch: pytest.MonkeyPatch, chunk: bytes) -> None:
    monkeypatch.setattr(server_sent, "EVENT_MAX_BYTES", 5000)
    with pytest.raises(ModelStreamBroken) as caught:
        list(split_events([chunk] * 2000))
    assert caught.value.reason == "stream_malformed"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (rb'"\ud83d\ude00"', "😀"),
        (rb'"\ud83d"', "\ud83d"),
        (rb'"a\ude00b"', "a\ude00b"),
        ('"\ud83d"'.encode("utf-8", "surrogatepass"), "\ud83d"),
    ],
    ids=["a pair", "a first half", "a second half", "half a pair as bytes"],
)
def test_half_a_pair_of_surrogates_is_read(data: bytes, text: str) -> None:
    (event,) = decode_events(b'{"type":"content_block_delta","delta":{"type":"text_delta","text":%b}}' % data)
    assert event.fields["delta"]["text"] == text


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"type":"ping","delta":5}', "ping"),
        (b'{"type":"something_new","delta":5}', OTHER),
        (b"5", UNREAD_EVENT),
        (b"null", UNREAD_EVENT),
        (b'["text"]', UNREAD_EVENT),
        (b"{}", OTHER),
    ],
    ids=repr,
)
def test_an_event_without_text_is_harmless(data: bytes, kind: str) -> None:
    assert [event.kind for event in decode_events(data)] == [kind]


@pytest.mark.parametrize("data", [b"[DONE]", b" [done]", b"DONE", b"", b"  "], ids=repr)
def test_the_end_marker_of_another_api_is_not_an_event(data: bytes) -> None:
    assert not list(decode_events(data))


@pytest.mark.parametrize("name", ["ping", "message_stop", "content_block_stop"])
def test_an_event_that_has_no_text_is_known_by_its_name(name: str) -> None:
    assert list(decode_events(b"keep-alive", name)) == [WireEvent(name, {})]


def test_events_that_only_a_line_end_separates_are_several() -> None:
    data = b'data: {"type":"ping"}\ndata: {"type":"message_stop"}\n\n'
    assert [event.kind for event in read_wire_events([data])] == ["ping", "message_stop"]


@pytest.mark.parametrize(
    "data", [b"{", b"\xff", b"[" * 100_000, b"hello", b'{"a":1}\nhello'], ids=lambda data: repr(data[:20])
)
def test_data_that_may_have_been_text_is_malformed(data: bytes) -> None:
    with pytest.raises(ModelStreamBroken) as caught:
        list(decode_events(data))
    assert caught.value.reason == "stream_malformed"


@pytest.mark.parametrize("data", [b'{"type":"err', b"\xff", b"{"], ids=repr)
def test_a_cut_event_is_ignored(data: bytes) -> None:
    assert not list(decode_events(data, whole=False))
