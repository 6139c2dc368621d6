"""PDFs for a model: enough of one is read to know that it is whole and open, and how many pages it has.

A parser of PDFs does more work than a file is long, on a file made for that. This reads bytes in one pass, and
unpacks object streams up to a limit: pages may be described there.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final

from stepline.errors import ToolError

PAGE_TOKENS: Final = 4_100
"""Estimated tokens of a page: its text, and a picture of it. Source: platform.claude.com, "PDF support"."""
PAGES_MAX: Final = 100
"""Maximum pages of a request to a model with less than a million tokens. Source: the same page."""
UNPACKED_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes that are unpacked of one file."""
HEAD_BYTES: Final = 1_024
"""Bytes before a stream in which its dictionary stands."""

_PAGE: Final = re.compile(rb"/Type\s{0,8}/Page(?![A-Za-z])")
_ENCRYPTED: Final = re.compile(rb"/Encrypt(?![A-Za-z])")
_STREAM: Final = re.compile(rb"endstream|stream\r?\n")


def count_pages(data: bytes) -> int:
    """Return the pages of a PDF. Raises ToolError `pdf_unreadable`, `pdf_encrypted`."""
    if b"startxref" not in data:
        raise ToolError("it ends before its table of contents: it is not whole", code="pdf_unreadable")
    if _ENCRYPTED.search(data):
        raise ToolError("it is encrypted, and a model takes no password", code="pdf_encrypted")
    pages = sum(1 for _ in _PAGE.finditer(data))
    pages += sum(1 for text in object_streams(data) for _ in _PAGE.finditer(text))
    if not pages:
        raise ToolError("no page is found in it", code="pdf_unreadable")
    return pages


def object_streams(data: bytes) -> Iterator[bytes]:
    """Yield the object streams, unpacked, up to the limit; a damaged one as far as it goes."""
    start, room = -1, UNPACKED_BYTES
    for found in _STREAM.finditer(data):
        if found[0] != b"endstream":
            head = data[max(0, found.start() - HEAD_BYTES) : found.start()].rpartition(b" obj")[2]
            start = found.end() if b"/ObjStm" in head else -1
        elif start >= 0 and room > 0:
            try:
                text = zlib.decompressobj().decompress(data[start : found.start()], room)
            except zlib.error:
                text = b""
            room, start = room - len(text), -1
            yield text
