"""Encodings of foreign text: the names under which they are recorded, and how bytes are read by them.

A text is UTF-8, or begins with a mark of UTF-16 or UTF-32, or its type has the parameter `charset`, which was
detected (`preflight/detect_charset.py`). So every reader decodes the same text, without guessing.

Source: encoding.spec.whatwg.org, "Names and labels".
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Final

UTF_8: Final = "utf-8"
WINDOWS: Final = "windows-1252"
"""The encoding of a text that is not UTF-8 and has no record, because an older release recorded none."""
CODECS: Final[Mapping[str, str]] = {
    UTF_8: "utf-8",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
    **{f"windows-{number}": f"cp{number}" for number in range(1250, 1259)},
    "windows-874": "cp874",
    **{f"iso-8859-{part}": f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "koi8-r": "koi8-r",
    "koi8-u": "koi8-u",
    "ibm866": "cp866",
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "shift_jis": "shift_jis",
    "windows-31j": "cp932",
    "euc-jp": "euc_jp",
    "iso-2022-jp": "iso2022_jp",
    "gb18030": "gb18030",
    "big5": "big5",
    "big5-hkscs": "big5hkscs",
    "euc-kr": "cp949",
}
"""Each encoding that a record may name, and the codec that reads it. No other codec ever reads a foreign text."""
ALIASES: Final = frozenset({"latin-1", "latin1", "iso-8859-1", "us-ascii"})
"""Names that the web reads as Windows-1252, which contains them."""
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""A mark that begins with another one comes first."""
MARK_BYTES: Final = 4
"""The longest mark."""
_PARAMETER: Final = re.compile(r";\s{0,9}charset=\"?([a-z0-9_-]{1,20})\"?", re.IGNORECASE)


def charset_of(mime: str) -> str:
    """Return the encoding that a type records; "" if it records none, or none of these."""
    found = _PARAMETER.search(mime)
    name = found[1].lower() if found else ""
    return name if name in CODECS else ""


def with_charset(mime: str, charset: str) -> str:
    """Return the type with the record of an encoding; UTF-8 and texts with a mark need none."""
    return f"{mime}; charset={charset}" if charset not in ("", UTF_8) else mime


def marked_codec(head: bytes) -> str:
    """Return the codec of the mark with which a text begins; "" without one."""
    return next((codec for mark, codec in _MARKS if head.startswith(mark)), "")


def read_as(name: str) -> str:
    """Return the codec for an encoding of this name. Raises LookupError for no encoding of text."""
    return CODECS[WINDOWS] if name in ALIASES else CODECS.get(name) or codecs.lookup(name).name


def decode_whole(data: bytes, mime: str) -> str:
    """Return a text of a type; an undecodable byte becomes the replacement character."""
    for codec in (marked_codec(data) or read_as(charset_of(mime) or "utf-8-sig"), read_as(WINDOWS)):
        try:
            return data.decode(codec)
        except UnicodeDecodeError:
            continue
    return data.decode(errors="replace")
