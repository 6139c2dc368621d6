import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.sandbox.tail import CHUNK_BYTES, Tail, drain

WAIT_S = 60.0


@given(st.lists(st.binary(max_size=20)), st.integers(0, 30))
def test_the_last_bytes_are_kept_and_all_are_counted(chunks, limit_bytes):
    tail = Tail(limit_bytes)
    for chunk in chunks:
        tail.write(chunk)
    written = b"".join(chunks)
    assert tail.total_bytes == len(written)
    kept = written[max(0, len(written) - limit_bytes) :]
    assert kept.decode("utf-8", "replace").endswith(tail.text())
    if len(written) <= limit_bytes:
        assert tail.text() == written.decode("utf-8", "replace")


@given(st.text(min_size=1), st.integers(1, 40))
def test_text_cut_anywhere_begins_with_a_whole_character(text, limit_bytes):
    tail = Tail(limit_bytes)
    tail.write(text.encode())
    assert text.endswith(tail.text())
    assert len(text.encode()) - len(tail.text().encode()) <= max(0, len(text.encode()) - limit_bytes) + 3


def test_bytes_that_are_no_text_are_shown_as_such():
    tail = Tail(10)
    tail.write(b"a\xffb")
    assert tail.text() == "a\ufffdb"


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES * 3 + 1])
def test_a_pipe_is_read_to_its_end_and_closed(size):
    reading, writing = os.pipe()
    tail = Tail(100)
    thread = drain(reading, tail)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(b"x" * size)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert (tail.total_bytes, tail.text()) == (size, "x" * min(size, 100))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reading)


def test_a_descriptor_that_cannot_be_read_ends_the_thread(tmp_path, caplog):
    thread = drain(os.open(tmp_path, os.O_RDONLY), Tail(100))
    thread.join(WAIT_S)
    assert [record.message for record in caplog.records] == ["output not read to its end"]
