"""Artifacts over recorded ones: what a replay writes stays in memory, what it reads may be recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.ports.artifacts import Artifacts


class LayeredArtifacts(MemoryArtifacts):
    """Objects in memory over those of `recorded`, which are never written."""

    def __init__(self, recorded: Artifacts) -> None:
        super().__init__()
        self._recorded = recorded

    def get(self, key: str) -> bytes:
        return super().get(key) if key in self.objects else self._recorded.get(key)

    def heads(self, keys: Sequence[str], *, max_bytes: int) -> Iterator[bytes]:
        return (self.get(key)[:max_bytes] for key in keys)

    def size(self, key: str) -> int | None:
        return super().size(key) if key in self.objects else self._recorded.size(key)
