from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.programs.frame import HEADER_BYTES, FrameReader, pack_bytes, render_frame, unpack_bytes

CAP = 64
BODIES = st.lists(st.binary(max_size=CAP), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(BODIES, st.lists(st.integers(min_value=0), max_size=20))
def test_a_stream_cut_anywhere_gives_the_same_frames(bodies, places):
    stream = b"".join(render_frame(body) for body in bodies)
    reader = FrameReader(CAP)
    assert [body for piece in cut(stream, places) for body in reader.feed(piece)] == bodies
    assert reader.held_bytes == 0


@given(st.binary(max_size=400), st.lists(st.integers(min_value=0), max_size=20))
def test_a_reader_never_holds_more_than_one_frame(stream, places):
    reader = FrameReader(CAP)
    for piece in cut(stream, places):
        try:
            bodies = reader.feed(piece)
        except ToolError:
            assert reader.held_bytes == 0
            return
        assert all(len(body) <= CAP for body in bodies)
        assert reader.held_bytes < CAP + HEADER_BYTES


def test_an_oversized_header_is_refused_before_its_body():
    reader = FrameReader(CAP)
    assert reader.feed((CAP + 1).to_bytes(4, "big")[:3]) == []
    with pytest.raises(ToolError) as refused:
        reader.feed((CAP + 1).to_bytes(4, "big")[3:])
    assert refused.value.reason == "frame_too_large"


def test_a_frame_of_the_maximum_size_is_accepted():
    reader = FrameReader(CAP)
    assert reader.feed(render_frame(b"x" * CAP)) == [b"x" * CAP]


@given(VALUES)
def test_bytes_are_restored_at_any_depth(value):
    assert unpack_bytes(pack_bytes(value)) == value


def test_bytes_are_base64_under_a_type():
    assert pack_bytes({"a": (b"\x00\xff",)}) == {"a": [{"__type__": "bytes", "__data__": "AP8="}]}


def test_a_value_that_only_resembles_bytes_is_unchanged():
    for value in (
        {"__type__": "bytes"},
        {"__type__": "date", "__data__": "x"},
        {"__type__": "bytes", "__data__": 1},
    ):
        assert unpack_bytes(value) == value


@pytest.mark.parametrize("text", ["nö", "?", "AAA", "AA=A"])
def test_broken_base64_is_the_callers_mistake(text):
    with pytest.raises(ToolError) as refused:
        unpack_bytes([{"__type__": "bytes", "__data__": text}])
    assert refused.value.reason == "bad_params"
