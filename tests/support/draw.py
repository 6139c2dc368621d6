"""Which part of a table a landing plays: drawn by its commit, so that landings after each other play all of it.

`STEPLINE_DRAW` is the commit's hash, or any text; `STEPLINE_TIER` is `landing` if it is not set, and `nightly` plays
every share, as `make soak` does.
"""

from __future__ import annotations

import os
import string
import zlib
from collections.abc import Sequence
from typing import Final, TypeVar

from tests.support.budget import NIGHTLY, SOAK

T = TypeVar("T")

HASH_DIGITS: Final = 8


def draw_number(text: str) -> int:
    """Return the number that a commit's hash begins with; any other text has one, too, and that of none is 0."""
    if not text:
        return 0
    start = text[:HASH_DIGITS]
    if all(digit in string.hexdigits for digit in start):
        return int(start, 16)
    return zlib.crc32(text.encode())


DRAW: Final = draw_number(os.environ.get("STEPLINE_DRAW", ""))  # noqa: TID251 - a test takes its part from who runs it
ALL: Final = SOAK or NIGHTLY


def share(rows: Sequence[T], shares: int, *, draw: int = DRAW, everything: bool = ALL) -> list[T]:
    """Deal rows in turn, as cards are dealt, and return those of this run's share, in their order."""
    return list(rows) if everything else list(rows[draw % shares :: shares])
