"""Quarantine in a dictionary, and the rows of uploads in another."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import DependencyError, NotFoundError
from stepline.model.file.upload_slot import Upload
from stepline.model.ids import Lane
from stepline.ports.upload.quarantine import Infection, PostGrant


class MemoryQuarantine:
    """Objects by key, in `objects`, which tests may use; `post` acts like a client with a grant."""

    def __init__(self, clock: MemoryClock) -> None:
        """Start empty; `clock` decides on expiry."""
        self._clock = clock
        self.objects: dict[str, bytes] = {}

    def allow(self, key: str, *, mime: str, size_bytes: int, ttl_s: int) -> PostGrant:
        until = int(self._clock.now().timestamp()) + ttl_s
        fields = {"key": key, "Content-Type": mime, "size": str(size_bytes), "until": str(until)}
        return PostGrant(url="memory:", fields=fields)

    def post(self, grant: PostGrant, data: bytes) -> None:
        """Post a file. Raises DependencyError: the grant does not allow it."""
        allowed = grant.fields
        if len(data) != int(allowed["size"]) or int(allowed["until"]) < self._clock.now().timestamp():
            raise DependencyError("the right has expired, or is for another size", key=allowed["key"])
        self.objects[allowed["key"]] = data

    def fetch(self, key: str, into: Path, *, max_bytes: int) -> int | None:
        if (data := self.objects.get(key)) is None:
            return None
        return into.write_bytes(data[: max_bytes + 1])

    def remove(self, key: str) -> None:
        self.objects.pop(key, None)


class MemoryUploads:
    """Implements `Uploads`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[tuple[str, str], Upload] = {}

    def begin(self, lane: Lane, upload: Upload) -> None:
        with self._lock:
            self._rows[lane.key(), upload.upload_id] = upload

    def get(self, lane: Lane, upload_id: str) -> Upload | None:
        return self._rows.get((lane.key(), upload_id))

    def settle(self, lane: Lane, upload: Upload) -> Upload:
        with self._lock:
            row = lane.key(), upload.upload_id
            if row not in self._rows:
                raise NotFoundError("no such upload")
            if not self._rows[row].is_final:
                self._rows[row] = upload
            return self._rows[row]

    def erase(self, lane: Lane) -> int:
        """Remove all rows of a conversation; return their number."""
        with self._lock:
            rows = [place for place in self._rows if place[0] == lane.key()]
            return sum(self._rows.pop(place, None) is not None for place in rows)


class MemoryScanner:
    """Implements `Scanner`: returns `finding` for every file."""

    def __init__(self, finding: Infection = "clean") -> None:
        self.finding = finding

    def scan(self, path: Path, key: str) -> Infection:
        return self.finding
