"""A strand: a sequence that grows at its end, and whose oldest items are made when somebody wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self, TypeVar, overload

T = TypeVar("T")


class Strand(Sequence[T]):
    """Items in their order. `older` makes the first `before` of them.

    A segment brings thousands of items, and most rounds look at the newest only. What is appended stands behind; a
    copy shares everything that stands so far.
    """

    __slots__ = ("_before", "_newer", "_older")

    def __init__(
        self, newer: Iterable[T] = (), *, before: int = 0, older: Callable[[], Sequence[T]] = tuple
    ) -> None:
        """Take the newer items; `older` is called as often as its items are wanted."""
        self._newer, self._before, self._older = list(newer), before, older

    def copy(self) -> Self:
        """Return the same items, to be appended to."""
        return type(self)(self._newer, before=self._before, older=self._older)

    def append(self, item: T) -> None:
        """Put an item behind all others."""
        self._newer.append(item)

    def cut(self, at: int) -> list[T]:
        """Take off the items from one on, which is none of the oldest, and return them."""
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
