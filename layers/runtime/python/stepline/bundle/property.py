"""Strict readers for values of properties and descriptors; errors name the path of a value.

Every reader takes the value and its dotted path, and raises InputError `bad_setting`. `load_module` imports what a value
names.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, NoReturn, TypeAlias

from stepline.errors import InputError

Reader: TypeAlias = Callable[[Any, str], Any]

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_FACTORS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_OFF: Final = frozenset({"0", "off", "none", "disabled", "unlimited"})


def look_up(mapping: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path; None if there is none."""
    found: Any = mapping
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def reject_setting(path: str, expected: str) -> NoReturn:
    """Raise the error for an invalid value. The value is not shown: it may be secret."""
    raise InputError(f"{path} is not {expected}", code="bad_setting")


def read_mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        reject_setting(path, "a mapping of names")
    return value


def read_whole(value: Any, path: str) -> int:
    """Return an integer, given as a number or as digits."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        reject_setting(path, "a whole number")
    try:
        return int(value)
    except ValueError:
        reject_setting(path, "a whole number")


def read_positive(value: Any, path: str) -> int:
    if (number := read_whole(value, path)) < 1:
        reject_setting(path, "a positive number")
    return number


def read_decimal(value: Any, path: str) -> float:
    """Return a positive number, given as a number or as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        reject_setting(path, "a number")
    try:
        number = float(value)
    except ValueError:
        reject_setting(path, "a number")
    if not (math.isfinite(number) and number > 0):
        reject_setting(path, "a positive number")
    return number


def read_size(value: Any, path: str) -> int:
    """Return bytes: an integer, or text with the suffix `k`, `m`, `g` or `t`, each 1024 times the previous.

    0, `off`, `none`, `disabled` and `unlimited` are 0: no limit.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        reject_setting(path, "a size like 100m")
    text = str(value).strip().lower()
    if text in _OFF:
        return 0
    if not (match := _SIZE.fullmatch(text)):
        reject_setting(path, "a size like 100m")
    return int(float(match[1]) * _FACTORS[match[2] or ""])


def read_flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        reject_setting(path, "true or false")
    return value


def read_text(value: Any, path: str) -> str:
    if not isinstance(value, str) or not value.strip():
        reject_setting(path, "a text")
    return value.strip()


def read_texts(value: Any, path: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        reject_setting(path, "a list of texts")
    return tuple(read_text(item, f"{path}[{at}]") for at, item in enumerate(value))


def read_word(value: Any, path: str) -> str:
    """Return text that a command line reads as one argument, never as an option."""
    text = read_text(value, path)
    if text.startswith("-") or any(character.isspace() or character == "\0" for character in text):
        reject_setting(path, "one word")
    return text


def read_choice(choices: Mapping[str, Any]) -> Reader:
    """Return the reader of an enumeration; `choices` maps words to values."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, str) or value not in choices:
            reject_setting(path, f"one of {', '.join(choices)}")
        return choices[value]

    return read


def load_module(name: str, *, code: str) -> ModuleType:
    """Import a module named by a bundle or a setting; InputError `code` if it does not exist.

    An error of the module's own code, including a missing import in it, is raised unchanged.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"{name[:80]!r} is no module's name", code=code)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and f"{name}.".startswith(f"{missing}."):
            raise InputError(f"there is no module {name}", code=code) from error
        raise
