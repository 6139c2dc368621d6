"""Marks for the methods of ports that change external state, between which and its return a process may die.

Only the fault tests read the mark (docs/concepts/log.md#how-it-is-checked); it does not change the method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK: Final = "__boundary__"


def write(method: Method) -> Method:
    """Mark a port's method as one that changes external state; all others only read."""
    setattr(method, _MARK, True)
    return method


def is_write(method: object) -> bool:
    """Return True if a method is marked."""
    return bool(getattr(method, _MARK, False))
