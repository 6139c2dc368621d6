"""Reads of files that are larger than the memory of the function that reads them."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterator

import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.model.block import Body
from stepline.tools.fetch import run_fetch
from tests.unit.tools.conftest import TURN, ToolConversation, read_status

MIB = 1024 * 1024
LINES = 50 * MIB
FILE = f"fi:{TURN}.outputs/numbers.txt"


class Repeated(MemoryArtifacts):
    """An object store whose one object is a piece, repeated."""

    def __init__(self, piece: bytes, count: int) -> None:
        super().__init__()
        self.piece, self.count, self.begun = piece, count, 0

    def get(self, key: str) -> bytes:
        self.begun += 1
        return self.piece * self.count

    def stream(self, key: str) -> Iterator[bytes]:
        self.begun += 1
        return itertools.repeat(self.piece, self.count)


@pytest.fixture
def large() -> ToolConversation:
    """A conversation with a file of 100 MiB, two bytes a line."""
    conversation = ToolConversation(artifacts=Repeated(b"7\n" * (MIB // 2), 100))
    conversation.say(FILE, "", mime="text/plain", body=body())
    return conversation


def body() -> Body:
    return Body(key="k", sha256="ab" * 32, size_bytes=100 * MIB, mime="text/plain")


@pytest.mark.parametrize(
    ("item", "lines"),
    [
        ({}, f"[1-4266]/{LINES}"),
        ({"line_start": LINES - 1, "line_count": 2}, f"[{LINES - 1}-{LINES}]/{LINES}"),
        (
            {"offset_text_symbols": LINES + 1, "max_text_symbols": 3},
            f"[{LINES // 2 + 2}-{LINES // 2 + 2}]/{LINES}",
        ),
    ],
)
def test_a_read_of_100_mib_of_short_lines_needs_little_memory(large, item, lines):
    tracemalloc.start()
    try:
        output = large.call("react.read", {"items": [{"path": FILE, **item}]})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (row,) = read_status(output)["paths"]
    assert row["line_count"] == LINES
    assert row["read_range"]["lines"] == lines
    assert peak < 16 * MIB


def test_a_whole_content_that_is_too_large_is_refused_before_it_is_read(large):
    result = f"tc:{TURN}.tc_000000000001.result"
    large.say(result, "", mime="text/plain", body=body())
    output = run_fetch({"path": result}, large.context("tc_000000000009"))
    assert output.ret["err"]["code"] == "content_too_large"
    assert large.artifacts.begun == 0
