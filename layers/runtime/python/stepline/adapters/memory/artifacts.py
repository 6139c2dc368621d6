"""Artifacts in a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from stepline.errors import NotFoundError

PIECE_BYTES = 64 * 1024


class MemoryArtifacts:
    """Objects by key. Tests may use `objects` and `mimes`; `replaced` is called with each replaced key."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.objects: dict[str, bytes] = {}
        self.mimes: dict[str, str] = {}
        self.replaced: Callable[[str], object] = str

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        with self._lock:
            if key in self.objects:
                return False
            self.objects[key] = body
            self.mimes[key] = mime
            return True

    def replace(self, key: str, body: bytes, *, mime: str) -> None:
        with self._lock:
            self.objects[key] = body
            self.mimes[key] = mime
        self.replaced(key)

    def get(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise NotFoundError("no such object", key=key) from None

    def stream(self, key: str) -> Iterator[bytes]:
        body = self.get(key)
        yield from (body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES))

    def heads(self, keys: Sequence[str], *, max_bytes: int) -> Iterator[bytes]:
        return (self.get(key)[:max_bytes] for key in keys)

    def size(self, key: str) -> int | None:
        body = self.objects.get(key)
        return None if body is None else len(body)
