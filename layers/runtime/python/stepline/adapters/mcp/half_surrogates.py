r"""Repairs half a surrogate pair in JSON: `\ud83d` without its other half, where a server has cut a text in an emoji.

The package's parser refuses the whole message for it. It is replaced by `\ufffd`, the replacement character, which has
the same length.
"""

from __future__ import annotations

import re
from typing import Final

_HEX: Final = rb"[0-9a-fA-F]"
_HIGH, _LOW = rb"u[dD][89abAB]" + _HEX + rb"{2}", rb"u[dD][c-fC-F]" + _HEX + rb"{2}"
_ESCAPES: Final = re.compile(rb"\\(?:\\|" + _HIGH + rb"\\" + _LOW + rb"|" + _HIGH + rb"|" + _LOW + rb")")
_BEGUN: Final = re.compile(rb"\\(?:u" + _HEX + rb"{0,3}|" + _HIGH + rb"(?:\\(?:u" + _HEX + rb"{0,3})?)?)?")
_LONGEST: Final = 12
_HALF: Final = 6
_UNREADABLE: Final = rb"\ufffd"


class HalfSurrogates:
    """Repairs JSON that arrives in pieces: the same bytes, except for the halves."""

    def __init__(self) -> None:
        self._held = b""

    def mend(self, piece: bytes, *, last: bool = False) -> bytes:
        """Return the bytes that are complete so far; a partial escape is kept for the next piece."""
        data = self._held + piece
        end = len(data) if last else _end(data)
        self._held = data[end:]
        return _ESCAPES.sub(lambda found: _UNREADABLE if len(found[0]) == _HALF else found[0], data[:end])


def _end(data: bytes) -> int:
    """Return the offset of a partial escape at the end; the length if there is none."""
    for at in range(max(0, len(data) - _LONGEST), len(data)):
        if data[at : at + 1] == b"\\" and _BEGUN.fullmatch(data, at):
            before = data[:at]
            if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
                return at
    return len(data)
