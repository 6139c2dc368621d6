"""Text from outside: in an encoding that can be determined, and without characters that only machines read."""

from __future__ import annotations

import re
from typing import Final

from stepline.model.file.charset import UTF_8, marked_codec, read_as
from stepline.model.file.file_verdict import FileVerdict, reject_file
from stepline.preflight.detect_charset import detect_charset

TEXT_MAX_BYTES: Final = 10 * 1024 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters except tabs, ends of lines and pages, and the escape of a terminal's colours."""
_BINARY: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")


def judge_text(data: bytes) -> FileVerdict:
    """Judge bytes of any type of text; a verdict that accepts them records their encoding. Pure."""
    if len(data) > TEXT_MAX_BYTES:
        return reject_file("text_too_large", f"a text has at most {TEXT_MAX_BYTES} bytes")
    charset = detect_charset(data)
    if charset is None:
        if found := _BINARY.search(data):
            return reject_file(
                "text_binary", f"it has the control character U+{found[0][0]:04X}, which no text has"
            )
        return reject_file(
            "text_undecodable",
            "its encoding cannot be determined: UTF-8, UTF-16 and UTF-32 are read always, Windows, ISO 8859, KOI8, Shift_JIS, "
            "EUC, GB 18030 and Big5 where there is enough text; save it as UTF-8",
        )
    text = data.decode(marked_codec(data) or read_as(charset or UTF_8))
    if control := _CONTROL.search(text):
        return reject_file(
            "text_binary", f"it has the control character U+{ord(control[0]):04X}, which no text has"
        )
    return FileVerdict(charset=charset)
