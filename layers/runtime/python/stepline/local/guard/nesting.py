"""Websocket messages that nest too deep for the emulator.

To choose a route it parses each message, and its parser ends the connection at such a one. API Gateway hands it on to the
function, which answers it.
"""

from __future__ import annotations

import re
from typing import Final

NESTING_MAX: Final = 500
"""Half of what Python's parser takes."""

NO_JSON: Final = "["
"""Handed on in place of a message that nests deeper: no JSON either, which is what the function answers."""

_BRACKET: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A text, which may be cut off, or a bracket outside of one."""


def limit_nesting(text: str) -> str:
    """Return a message as it is, or `NO_JSON` for one that nests too deep."""
    if text.count("[") + text.count("{") <= NESTING_MAX:
        return text
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > NESTING_MAX:
            return NO_JSON
    return text
