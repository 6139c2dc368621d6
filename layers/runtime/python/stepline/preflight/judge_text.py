"""Text from outside: any encoding that people's programs write, and nothing in it that only machines read."""

from __future__ import annotations

import re
from typing import Final

from stepline.model.file.file_verdict import TAKEN, FileVerdict, rejected

TEXT_MAX_BYTES: Final = 10 * 1024 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters but tabs, ends of lines and pages, and the escape of a terminal's colours."""
_MARKED: Final = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
FOREIGN_MAX: Final = 0.3
"""The largest share of bytes beyond ASCII in a text of one byte a character: more of them are no writing."""


def judge_text(data: bytes) -> FileVerdict:
    """Judge bytes of any type of text. Pure."""
    if len(data) > TEXT_MAX_BYTES:
        return rejected("text_too_large", f"a text has at most {TEXT_MAX_BYTES} bytes")
    text = _decode(data)
    if text is None:
        return rejected("text_undecodable", "its bytes are no text in UTF-8, UTF-16 or one byte a character")
    if found := _CONTROL.search(text):
        return rejected("text_binary", f"it has the control character U+{ord(found[0]):04X}")
    return TAKEN


def _decode(data: bytes) -> str | None:
    try:
        return data.decode(_MARKED.get(data[:2], "utf-8"))
    except UnicodeDecodeError:
        pass
    if data[:2] in _MARKED or len(data.translate(None, _ASCII)) > len(data) * FOREIGN_MAX:
        return None
    return data.decode("latin-1")


_ASCII: Final = bytes(range(0x80))
