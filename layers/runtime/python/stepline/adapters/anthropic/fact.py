"""The facts that a provider sends beside the text: ids, counters, details. Each may be missing, null or of another type.

A fact that cannot be read is dropped and counted, and costs nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

COUNT_MAX: Final = 10**12
WORD_CHARS: Final = 200
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class FactReader:
    """Reads the facts of one answer; `unread` counts those that it dropped, by their names."""

    def __init__(self) -> None:
        self.unread: Counter[str] = Counter()

    def fields(self, of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """Return an object's fields."""
        value = of.get(name)
        return value if isinstance(value, dict) else self._dropped(value, name, NOTHING)

    def word(self, of: Mapping[str, Any], name: str) -> str:
        """Return an id, a name or a kind, which any encoding can carry."""
        value = of.get(name)
        if isinstance(value, str) and len(value) <= WORD_CHARS and whole_pairs(value) == value:
            return value
        return self._dropped(value, name, "")

    def text(self, of: Mapping[str, Any], name: str) -> str:
        """Return a text of any length; half a surrogate pair is replaced."""
        value = of.get(name)
        return whole_pairs(value) if isinstance(value, str) else self._dropped(value, name, "")

    def count(self, of: Mapping[str, Any], name: str) -> int | None:
        """Return a counter."""
        value = of.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX:
            whole = int(value)
            if whole == value:
                return whole
        return self._dropped(value, name, None)

    def _dropped(self, value: object, name: str, without: _T) -> _T:
        if value is not None:
            self.unread[name] += 1
        return without


def whole_pairs(text: str) -> str:
    """Return a text in which pairs of surrogates are joined, and halves replaced, since no encoding can carry them."""
    return (
        text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )
