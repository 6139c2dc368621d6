"""Quoting: make foreign text safe for the prompt, so that it cannot forge structure.

A line of structure begins in the first column; a line of data begins with `INDENT`. Users, tools and models
only ever write data, so their text can never become a header, a frame or the end of one.
Source: docs/concepts/context.md#data-is-indented.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from stepline.model.visible_text import has_hidden, shorten, show_hidden

INDENT: Final = "  "
BLOB_CHARS: Final = 2048
"""The length from which an unbroken run of base64 (or hex) is an encoded blob and is left out."""

_NEXT_LINE: Final = "\n" + INDENT
_ENCODE = msgspec.json.Encoder().encode
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_RUN = "[A-Za-z0-9+/_-]"
_BLOB = re.compile(f"(?<!{_RUN}){_RUN}{{{BLOB_CHARS},}}={{0,2}}")
_PROBE_CHARS = BLOB_CHARS // 2
_PROBE = re.compile(f"{_RUN}{{{_PROBE_CHARS}}}")


def quote(text: str) -> str:
    """Return foreign text as indented lines, without NULs, blobs, unusual line breaks or hidden characters."""
    return INDENT + clean_for_prompt(text).replace("\n", _NEXT_LINE)


def inline(text: str) -> str:
    """Return foreign text as one line, for the end of a line of structure."""
    return " ".join(clean_for_prompt(text).split())


def inline_json(value: Any) -> str:
    """Return a value as JSON on one line; line breaks in its strings are escaped."""
    text = _ENCODE(value).decode()
    return text if text.isascii() else show_hidden(_BREAKS.sub(" ", text))


def clean_for_prompt(text: str) -> str:
    """Return text whose only line break is the line feed, without NULs, with a marker for each encoded blob.

    Other invisible characters are replaced by a visible sign.
    """
    if len(text) >= BLOB_CHARS and has_blob(text):
        text = _BLOB.sub(lambda found: f"<{len(found[0])} characters of encoded data left out>", text)
    if has_hidden(text):
        text = show_hidden(_BREAKS.sub("\n", text.replace("\0", "")))
    return text


def has_blob(text: str) -> bool:
    """Return True if there may be a blob: it covers a whole half-blob at a multiple of its length.

    Linear: searching for the blob's own pattern would cost its length at every character of a long run.
    """
    return any(_PROBE.match(text, at) for at in range(0, len(text) - _PROBE_CHARS + 1, _PROBE_CHARS))


def clip(text: str, chars: int) -> str:
    """Return the beginning of foreign text on one line, at most `chars` characters."""
    return shorten(inline(text[: chars * 4]), chars)


def label(text: str) -> str:
    """Return foreign text as a JSON string: one line, which its content cannot end."""
    return inline_json(inline(text))
