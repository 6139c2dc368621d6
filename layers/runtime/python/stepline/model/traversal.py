"""The gate every path passes: text that could lead out of its root, deceive a reader, or name another file elsewhere.

A name is one that Linux, macOS and Windows read alike: a file goes to the machines of users, in an archive or alone.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NoReturn

from stepline.errors import PathError

TEXT_MAX_CHARS: Final = 2_048
RELATIVE_MAX_BYTES: Final = 900
SEGMENT_MAX_BYTES: Final = 255

_RESERVED_CHARACTERS: Final = re.compile(r'[<>:"|?*]')
_DEVICES: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
    | {f"{port}{number}" for port in ("COM", "LPT") for number in "123456789¹²³"}
)
"""Names that Windows keeps for devices, in every folder and with every ending."""

_DRIVE = re.compile(r"[A-Za-z]:")
# Controls, invisible signs (zero width, direction, tags), halves of characters, line and paragraph separators.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def refuse(code: str, message: str, text: str) -> NoReturn:
    raise PathError(f"{message}: {text[:120]!r}", code=code)


def clean_text(text: str) -> str:
    """Return the text in NFC, without what no path may hold anywhere."""
    if not text:
        refuse("path_empty", "a path is not empty", text)
    if len(text) > TEXT_MAX_CHARS:
        refuse("path_too_long", f"a path has at most {TEXT_MAX_CHARS} characters", text)
    text = unicodedata.normalize("NFC", text)
    if "\\" in text:
        refuse("path_backslash", "segments are separated by /", text)
    if not text.isascii() or not text.isprintable():
        refused = any(unicodedata.category(char) in _REFUSED_CATEGORIES for char in text)
        if refused:
            refuse("path_control_character", "a path holds no control or invisible characters", text)
    if text.startswith("/"):
        refuse("path_absolute", "a path is not absolute", text)
    return text


def find_ambiguity(segment: str) -> tuple[str, str] | None:
    """Return why a segment that is read here names something else on another system, as a code and a message."""
    if _RESERVED_CHARACTERS.search(segment):
        return (
            "path_reserved_character",
            'a segment holds none of < > : " | ? *, which have a meaning elsewhere',
        )
    if segment.endswith((".", " ")):
        return "path_dot_edge", "a segment ends neither with a dot nor with a blank, which other systems drop"
    if segment.partition(".")[0].rstrip(" ").upper() in _DEVICES:
        return (
            "path_reserved_name",
            "a segment is not named like a device of another system, whatever its ending",
        )
    return None


def check_relative(rel: str) -> str:
    """Return `rel` if it can only name something below its root."""
    if len(rel.encode()) > RELATIVE_MAX_BYTES:
        refuse("path_too_long", f"a relative path has at most {RELATIVE_MAX_BYTES} bytes", rel)
    if rel.startswith("/"):
        refuse("path_absolute", "the part below the namespace is relative", rel)
    if _DRIVE.match(rel):
        refuse("path_drive", "a path names no drive", rel)
    for segment in rel.split("/"):
        if not segment:
            refuse("path_empty_segment", "a path names a file and has no empty segments", rel)
        if not segment.strip("."):
            refuse("path_dot_segment", "a path has no segments of dots only", rel)
        if segment != segment.strip():
            refuse("path_blank_edge", "a segment neither begins nor ends with a blank", rel)
        if (ambiguity := find_ambiguity(segment)) is not None:
            refuse(*ambiguity, rel)
        if len(segment.encode()) > SEGMENT_MAX_BYTES:
            refuse("path_too_long", f"a segment has at most {SEGMENT_MAX_BYTES} bytes", rel)
    return rel
