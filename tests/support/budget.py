"""How much a test tries: a landing samples what `make soak` tries at length."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

SOAK = os.environ.get("STEPLINE_SOAK") == "1"  # noqa: TID251 - a test takes its length from who runs it


def budget(landing: T, soak: T) -> T:
    """Return what a landing has time for, or all of it under `make soak`."""
    return soak if SOAK else landing
