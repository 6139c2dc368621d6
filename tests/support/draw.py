"""The part of a table that a landing runs: drawn by its commit, so that consecutive landings run all of it.

`STEPLINE_DRAW` is the commit's hash, or any text; `STEPLINE_TIER` is `landing` if it is not set, and `nightly` runs
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
    """Return the number that a commit's hash begins with; any other text has one, too, and an empty text has 0."""
    if not text:
        return 0
    start = text[:HASH_DIGITS]
    if all(digit in string.hexdigits for digit in start):
        return int(start, 16)
    return zlib.crc32(text.encode())


DRAW: Final = draw_number(os.environ.get("STEPLINE_DRAW", ""))  # noqa: TID251 - the caller of a test sets its part
ALL: Final = SOAK or NIGHTLY


def share(rows: Sequence[T], shares: int, *, draw: int = DRAW, everything: bool = ALL) -> list[T]:
    """Deal rows in turn, as cards are dealt, and return those of this run's share, in their order."""
    return list(rows) if everything else list(rows[draw % shares :: shares])
