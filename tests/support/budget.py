"""The size of a test's sample: small at a landing, larger in `make nightly`, largest in `make soak`."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

SOAK = os.environ.get("STEPLINE_SOAK") == "1"  # noqa: TID251 - the caller of a test sets its length
NIGHTLY = os.environ.get("STEPLINE_TIER") == "nightly"  # noqa: TID251 - as above


def budget(landing: T, soak: T, *, nightly: T | None = None) -> T:
    """Return the size of this run's tier; a nightly has a landing's size unless it has its own."""
    if SOAK:
        return soak
    return landing if nightly is None or not NIGHTLY else nightly
