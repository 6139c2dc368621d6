"""How much a test tries: a landing samples what `make nightly` tries more of, and `make soak` at length."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

SOAK = os.environ.get("STEPLINE_SOAK") == "1"  # noqa: TID251 - a test takes its length from who runs it
NIGHTLY = os.environ.get("STEPLINE_TIER") == "nightly"  # noqa: TID251 - as above


def budget(landing: T, soak: T, *, nightly: T | None = None) -> T:
    """Return the size of this run's tier; a nightly has a landing's size where it has none of its own."""
    if SOAK:
        return soak
    return landing if nightly is None or not NIGHTLY else nightly
