"""A strand: a sequence that grows at its end, and whose oldest items are made on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self, TypeVar, overload

T = TypeVar("T")


class Strand(Sequence[T]):
    """Items in order. `older` makes the first `before` of them.

    A segment brings thousands of items, and most rounds read only the newest. New items are appended; a
    copy shares all existing ones.
    """

    __slots__ = ("_before", "_newer", "_older")

    def __init__(
        self, newer: Iterable[T] = (), *, before: int = 0, older: Callable[[], Sequence[T]] = tuple
    ) -> None:
        """Begin with the newer items; `older` is called each time its items are needed."""
        self._newer, self._before, self._older = list(newer), before, older

    def copy(self) -> Self:
        """Return a copy that can be appended to."""
        return type(self)(self._newer, before=self._before, older=self._older)

    def append(self, item: T) -> None:
        """Append an item."""
        self._newer.append(item)

    def cut(self, at: int) -> list[T]:
        """Remove and return the items from index `at` on; `at` must not lie among the oldest."""
        start = at - self._before
        taken = self._newer[start:]
        del self._newer[start:]
        return taken

    def __len__(self) -> int:
        return self._before + len(self._newer)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        before = self._before
        if not before:
            return self._newer[at]
        if isinstance(at, slice):
            start, stop, stride = at.indices(len(self))
            if stride == 1 and start >= before:
                return self._newer[start - before : max(0, stop - before)]
            return list(self)[at]
        index = at + len(self) if at < 0 else at
        return self._newer[index - before] if index >= before else self._older()[index]

    def __iter__(self) -> Iterator[T]:
        if self._before:
            yield from self._older()
        yield from self._newer

    def __reversed__(self) -> Iterator[T]:
        yield from reversed(self._newer)
        if self._before:
            yield from reversed(self._older())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"Strand({list(self)!r})"
