"""Quoting: how foreign text stands in the prompt, so that it can say anything and forge nothing.

A line of structure begins in the first column; a line of data begins with `INDENT`. Users, tools and models
only ever write data, therefore no text of theirs can become a header, a frame or the end of one.
Source: docs/concepts/context.md#data-is-indented.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from stepline.model.glyph import has_hidden, show_hidden

INDENT: Final = "  "
BLOB_CHARS: Final = 2048
"""From this length on, an unbroken run of base64 (or hex) is an encoded blob that no model reads."""

LONG_CHARS: Final = 400
"""A string of a call's parameters beyond this is cut, and so is one beyond `CONTENT_CHARS` that is a body."""
CONTENT_CHARS: Final = 100
BODIES: Final = frozenset({"content", "code", "patch"})
"""Parameters that are bodies: they are read at the path they were written to, not in the call."""

_NEXT_LINE: Final = "\n" + INDENT
_ENCODE = msgspec.json.Encoder().encode
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_RUN = "[A-Za-z0-9+/_-]"
_BLOB = re.compile(f"(?<!{_RUN}){_RUN}{{{BLOB_CHARS},}}={{0,2}}")
_PROBE_CHARS = BLOB_CHARS // 2
_PROBE = re.compile(f"{_RUN}{{{_PROBE_CHARS}}}")


def quote(text: str) -> str:
    """Return foreign text as indented lines, without NULs, encoded blobs, exotic line breaks, hidden characters."""
    return INDENT + clean(text).replace("\n", _NEXT_LINE)


def inline(text: str) -> str:
    """Return foreign text as one line, for the end of a line of structure."""
    return " ".join(clean(text).split())


def inline_json(value: Any) -> str:
    """Return a value as JSON on one line; strings in it break no line, as JSON escapes their breaks."""
    text = _ENCODE(value).decode()
    return text if text.isascii() else show_hidden(_BREAKS.sub(" ", text))


def clean(text: str) -> str:
    """Return text whose only line break is the line feed, without NULs, with a marker for each encoded blob.

    Other characters that nobody would see are shown by a sign.
    """
    if len(text) >= BLOB_CHARS and has_blob(text):
        text = _BLOB.sub(lambda found: f"<{len(found[0])} characters of encoded data left out>", text)
    if has_hidden(text):
        text = show_hidden(_BREAKS.sub("\n", text.replace("\0", "")))
    return text


def has_blob(text: str) -> bool:
    """Tell whether there may be a blob: one covers a whole half-blob that begins at a multiple of its length.

    Linear, where searching the blob's own pattern costs its length at every character of a long run.
    """
    return any(_PROBE.match(text, at) for at in range(0, len(text) - _PROBE_CHARS + 1, _PROBE_CHARS))


def render_params(params: dict[str, Any], source: str) -> str:
    """Return a call's parameters as JSON on one line, with long strings cut and `source` named for the rest."""
    return inline_json({name: _cut(name, value, source) for name, value in params.items()})


def is_whole(params: dict[str, Any]) -> bool:
    """Tell whether `render_params` shows every parameter in full."""
    return all(_cut(name, value, "") == value for name, value in params.items())


def _cut(name: str, value: Any, source: str) -> Any:
    match value:
        case str():
            most = CONTENT_CHARS if name in BODIES else LONG_CHARS
            if len(value) <= most:
                return value
            return f"{value[:CONTENT_CHARS]}… [{len(value) - CONTENT_CHARS} more characters: see {source}]"
        case dict():
            return {key: _cut(str(key), item, source) for key, item in value.items()}
        case list():
            return [_cut(name, item, source) for item in value]
        case _:
            return value
