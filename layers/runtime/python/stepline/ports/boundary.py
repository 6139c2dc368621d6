"""Boundaries: the methods of ports that change the world, where a process may die between the change and its knowing.

The mark is for whoever breaks things there on purpose (docs/concepts/log.md#how-it-is-checked). It changes nothing of a method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK: Final = "__boundary__"


def write(method: Method) -> Method:
    """Mark a port's method as one that changes the world; every other only looks."""
    setattr(method, _MARK, True)
    return method


def is_write(method: object) -> bool:
    """Tell whether a method is marked."""
    return bool(getattr(method, _MARK, False))
