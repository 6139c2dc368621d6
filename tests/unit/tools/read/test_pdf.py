"""PDFs for a model: how many pages one has, and which are refused."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.tools.read import attach
from stepline.tools.read.attach import count_pages
from tests.support.files import pdf


def refused(data: bytes) -> str:
    with pytest.raises(ToolError) as error:
        count_pages(data)
    return error.value.reason


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("pages", [1, 7])
def test_pages_are_counted_wherever_they_are_described(pages: int, packed: bool) -> None:
    assert count_pages(pdf(pages, is_packed=packed)) == pages


def test_an_encrypted_file_is_refused() -> None:
    assert refused(pdf(encrypted=True)) == "pdf_encrypted"


@pytest.mark.parametrize(
    "data",
    [pdf(3)[:150], b"%PDF-1.7\n" + b"\x00\xff" * 200, b"%PDF-1.7\nstartxref\n0\n%%EOF", pdf(0)],
    ids=["cut", "garbage", "empty", "pageless"],
)
def test_a_file_that_is_not_whole_is_refused(data: bytes) -> None:
    assert refused(data) == "pdf_unreadable"


def test_a_stream_that_unpacks_to_very_much_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "UNPACKED_BYTES", 1_000)
    text = b"/Type /Page " + b" " * 100_000 + b"/Type /Page "
    head = b"1 0 obj\n<< /Type /ObjStm >>\nstream\n" + zlib.compress(text) + b"\nendstream\nendobj\n"
    assert count_pages(b"%PDF-1.7\n" + head * 3 + b"startxref\n0\n%%EOF") == 1


@given(st.binary(max_size=200), st.integers(0, 400))
def test_damaged_bytes_have_pages_or_an_error_with_a_code(junk: bytes, at: int) -> None:
    data = pdf(2, is_packed=True)
    code = ""
    try:
        count_pages(data[:at] + junk + data[at + len(junk) :])
    except ToolError as error:
        code = error.reason
    assert code in ("", "pdf_unreadable", "pdf_encrypted")
