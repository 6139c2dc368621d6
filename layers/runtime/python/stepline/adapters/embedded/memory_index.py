"""The embedded memory index: segments in the artifact store, plus newer rows from the logs.

    mem/<tenant>/<project>/<hash of the user>/manifest      the segments, and the batch each conversation is packed up to
    mem/<tenant>/<project>/<hash of the user>/<sha256>      a segment, never changed

A search reads the manifest, the segments that this process does not have yet, and the newer rows. If there are many
newer rows, it packs them into a segment and replaces the manifest. The last writer wins: one object names the segments
and their coverage, so a lost update only means that rows are read from the logs again. Without these objects,
everything is read from the logs, a few conversations per search. Source: docs/concepts/memory.md.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from stepline.adapters.embedded.stored_segment import SEGMENT_UNREAD, drop_conversation
from stepline.errors import DependencyError, NotFoundError
from stepline.metrics import MEMORY_BEHIND, MEMORY_UNPACKED, MEMORY_UNREAD
from stepline.model.base import Value
from stepline.model.ids import check_segment
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import Forgotten, MemoryHits, MemoryQuery

if TYPE_CHECKING:
    from stepline.adapters.embedded.packed_rows import Packed
    from stepline.log.bindings import Ports
    from stepline.log.memory_source import LogRows, NewRows

logger = logging.getLogger(__name__)

PACK_ROWS: Final = 256
"""The number of newer rows at which a search packs them."""
CONVERSATIONS: Final = 16
NEW_ROWS: Final = 1_024
"""The maximum conversations and rows that one search reads from the logs."""
SEGMENT_ROWS: Final = 32_768
"""The maximum rows of a segment; smaller segments are merged until none is followed by one of its size."""
SCOPES: Final = 8
HELD_ROWS: Final = 65_536
"""The number of users whose rows a process keeps, and the rows of all but the last: about 1 KB each, of 512 MB."""
PACKAGES: Final = ("numpy", "tokenizers", "wordllama")
"""The packages for a search: the extra `memory`, which in AWS is a layer of the functions that search."""


class _Segment(Value):
    key: str
    rows: int
    size_bytes: int


class MemoryManifest(Value):
    """The segments of a scope, oldest first, and the batch up to which they cover each conversation."""

    segments: tuple[_Segment, ...] = ()
    covered: dict[str, int] = msgspec.field(default_factory=dict)


EMPTY: Final = MemoryManifest()
_MANIFEST = msgspec.json.Decoder(MemoryManifest)


class _Fresh(NamedTuple):
    """The rows of one conversation after a batch, up to another."""

    after: int
    upto: int
    packed: Packed


@dataclass
class _Held:
    """The segments and newer rows of one scope that a process keeps."""

    lock: Lock = field(default_factory=Lock)
    segments: dict[str, Packed] = field(default_factory=dict)
    fresh: dict[str, _Fresh] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows; another thread may be reading them."""
        parts = (*self.segments.copy().values(), *(one.packed for one in self.fresh.copy().values()))
        return sum(len(part.rows) for part in parts)


class _Since(NamedTuple):
    """The newer rows of each conversation; `partial`: some were not read; `full`: the limit of a search was reached."""

    fresh: dict[str, _Fresh]
    partial: bool
    full: bool


class EmbeddedMemoryIndex:
    """Runs one search of a scope at a time; different scopes are searched in parallel."""

    reads_logs = True

    def __init__(self, ports: Ports) -> None:
        """Keep segments in the artifacts of `ports`, and read new rows from its log.

        Nothing is loaded before the first search.
        """
        self._ports = ports
        self._artifacts, self._meter = ports.artifacts, ports.meter
        self._lock = Lock()
        self._scopes: OrderedDict[MemoryScope, _Held] = OrderedDict()

    @cached_property
    def _source(self) -> LogRows:
        from stepline.log.memory_source import LogRows  # noqa: PLC0415 - only a search needs the fold

        return LogRows(self._ports)

    def add(self, scope: MemoryScope, rows: Sequence[MemoryRow]) -> None:
        """Pack rows that are not in a log, or not yet read from it."""
        held = self._hold(scope)
        from stepline.adapters.embedded.packed_rows import pack  # noqa: PLC0415 - numpy is loaded by the first search

        if not rows:
            return
        with held.lock:
            manifest = self._read_manifest(scope)
            self._write(scope, held, manifest, pack(rows), manifest.covered)

    def search(self, query: MemoryQuery) -> MemoryHits:
        held = self._hold(query.scope)
        from stepline.adapters.embedded.ranking import rank  # noqa: PLC0415 - numpy is loaded by the first search

        with held.lock:
            manifest = self._read_manifest(query.scope)
            packed = self._load(held, manifest)
            broken = packed is None
            if packed is None:
                manifest, packed = EMPTY, []
            since = self._read_since(held, manifest, query)
            parts = [*packed, *(one.packed for one in since.fresh.values())]
            hits = rank(parts, query)
            if broken or since.full or sum(len(one.packed.rows) for one in since.fresh.values()) >= PACK_ROWS:
                self._pack(query.scope, held, manifest, since.fresh)
        if since.partial:
            self._meter.count(MEMORY_BEHIND)
        return MemoryHits(hits=hits, behind=since.partial)

    def rebuild(self, scope: MemoryScope) -> Iterable[tuple[int, int]]:
        """Pack all rows of a scope from the logs again; yield the number of packed conversations and rows so far.

        Raises DependencyError.
        """
        held = self._hold(scope)
        with held.lock:
            held.fresh.clear()
            self._replace(scope, EMPTY)
            manifest, packed, partial = None, EMPTY, True
            while partial and packed != manifest:  # lost rows stay missing
                manifest = packed
                since = self._read_since(held, manifest, MemoryQuery(scope=scope, text=""))
                partial = since.partial
                self._write_since(scope, held, manifest, since.fresh)
                packed = self._read_manifest(scope)
                yield len(packed.covered), sum(segment.rows for segment in packed.segments)

    def forget(self, scope: MemoryScope, conversation: str) -> Forgotten:
        """Write the segments without the conversation, then the manifest that names them. Needs no packages.

        A segment that cannot be read is dropped together with the manifest's coverage: its rows are read from the logs
        again.
        """
        manifest = self._read_manifest(scope)
        covered = {name: n for name, n in manifest.covered.items() if name != conversation}
        segments: list[_Segment] = []
        removed = 0
        for segment in manifest.segments:
            try:
                reduced = drop_conversation(self._artifacts.get(segment.key), conversation)
            except (NotFoundError, DependencyError) as error:
                if isinstance(error, DependencyError) and error.reason != SEGMENT_UNREAD:
                    raise
                covered, removed = {}, removed + 1
                continue
            removed += reduced.removed
            if not reduced.removed:
                segments.append(segment)
            elif reduced.rows:
                key = self._put_segment(scope, reduced.body)
                segments.append(_Segment(key=key, rows=reduced.rows, size_bytes=len(reduced.body)))
        if len(covered) != len(manifest.covered) or removed:
            self._replace(scope, MemoryManifest(segments=tuple(segments), covered=covered))
        keys = (f"{prefix(scope)}/manifest", *(segment.key for segment in segments))
        return Forgotten(rows=removed, prefix=f"{prefix(scope)}/", keys=keys)

    def _put_segment(self, scope: MemoryScope, body: bytes) -> str:
        """Put a segment, replacing an existing object: a corrupt object has the name of its original content."""
        key = f"{prefix(scope)}/{hashlib.sha256(body).hexdigest()}"
        self._artifacts.replace(key, body, mime="application/msgpack")
        return key

    def _hold(self, scope: MemoryScope) -> _Held:
        if missing := [name for name in PACKAGES if find_spec(name) is None]:
            raise DependencyError(f"memory needs {', '.join(missing)}", code="embedding_missing")
        with self._lock:
            held = self._scopes.setdefault(scope, _Held())
            self._scopes.move_to_end(scope)
            rows = sum(one.rows for one in self._scopes.values()) - held.rows
            while len(self._scopes) > 1 and (len(self._scopes) > SCOPES or rows > HELD_ROWS):
                rows -= self._scopes.popitem(last=False)[1].rows
            return held

    def _read_manifest(self, scope: MemoryScope) -> MemoryManifest:
        """Return the manifest; an empty one if it does not exist or cannot be read."""
        try:
            return _MANIFEST.decode(self._artifacts.get(f"{prefix(scope)}/manifest"))
        except NotFoundError:
            return EMPTY
        except msgspec.MsgspecError:
            logger.exception("memory manifest not read")
            self._meter.count(MEMORY_UNREAD)
            return EMPTY

    def _load(self, held: _Held, manifest: MemoryManifest) -> list[Packed] | None:
        """Return the segments' rows; log and return None if a segment is missing or damaged."""
        from stepline.adapters.embedded.packed_rows import decode_packed  # noqa: PLC0415 - as above

        known = held.segments
        held.segments = {}
        try:
            for segment in manifest.segments:
                key = segment.key
                held.segments[key] = known[key] if key in known else decode_packed(self._artifacts.get(key))
        except (NotFoundError, DependencyError) as error:
            if isinstance(error, DependencyError) and error.reason != SEGMENT_UNREAD:
                raise
            logger.exception("memory segment not read", extra={"code": error.reason})
            self._meter.count(MEMORY_UNREAD)
            held.fresh.clear()
            return None
        return list(held.segments.values())

    def _read_since(self, held: _Held, manifest: MemoryManifest, query: MemoryQuery) -> _Since:
        """Read the rows that no segment covers, of the requested conversation first, then of the newest ones."""
        from stepline.adapters.embedded.packed_rows import merge, pack  # noqa: PLC0415 - as above

        newest = self._source.newest(query.scope)
        fresh: dict[str, _Fresh] = {}
        looked = rows = 0
        partial = False
        for conversation in sorted(newest, key=lambda one: one != query.conversation):
            covered = manifest.covered.get(conversation, 0)
            known = held.fresh.get(conversation)
            if known and known.after <= covered <= known.upto:
                fresh[conversation] = known
            start = fresh[conversation].upto if conversation in fresh else covered
            if newest[conversation] <= start:
                continue
            if looked >= CONVERSATIONS or rows >= NEW_ROWS:
                partial = True
                continue
            found = self._read(query.scope, conversation, start, NEW_ROWS - rows)
            if found is None:
                looked, partial = looked + 1, True
                continue
            looked, rows, partial = looked + 1, rows + len(found.rows), partial or not found.whole
            before = [fresh[conversation].packed] if conversation in fresh else []
            after = fresh[conversation].after if before else covered
            fresh[conversation] = _Fresh(after, found.upto, merge([*before, pack(found.rows)]))
        held.fresh = fresh
        return _Since(fresh, partial, full=looked >= CONVERSATIONS or rows >= NEW_ROWS)

    def _read(self, scope: MemoryScope, conversation: str, after: int, most: int) -> NewRows | None:
        """Return new rows of a conversation; log and return None if its log names a lost body."""
        from stepline.log.spill import LOST_BODY_CODES  # noqa: PLC0415 - already loaded by the journal in a search

        try:
            return self._source.read(scope, conversation, after=after, most=most)
        except DependencyError as error:
            if error.reason not in LOST_BODY_CODES:
                raise
            logger.exception("memory rows not read", extra={"code": error.reason})
            self._meter.count(MEMORY_UNREAD)
            return None

    def _pack(
        self, scope: MemoryScope, held: _Held, manifest: MemoryManifest, fresh: dict[str, _Fresh]
    ) -> None:
        """Write the newer rows as a segment. If that fails, the search still returns its rows."""
        try:
            self._write_since(scope, held, manifest, fresh)
        except DependencyError as error:
            logger.exception("memory not packed", extra={"code": error.reason})
            self._meter.count(MEMORY_UNPACKED)

    def _write_since(
        self, scope: MemoryScope, held: _Held, manifest: MemoryManifest, fresh: dict[str, _Fresh]
    ) -> None:
        from stepline.adapters.embedded.packed_rows import merge  # noqa: PLC0415 - as above

        covered = {name: one.upto for name, one in fresh.items()}
        new = merge(one.packed for one in fresh.values())
        self._write(scope, held, manifest, new, {**manifest.covered, **covered})
        held.fresh.clear()

    def _write(
        self, scope: MemoryScope, held: _Held, manifest: MemoryManifest, new: Packed, covered: dict[str, int]
    ) -> None:
        """Put a segment with the new rows and those of smaller segments before it, and then the manifest."""
        from stepline.adapters.embedded.packed_rows import encode_packed, merge  # noqa: PLC0415 - as above

        segments = list(manifest.segments)
        loaded = self._load(held, manifest)
        older = loaded if loaded is not None else []
        if loaded is None:
            segments, covered = [], {}
        size = len(new.rows)
        while segments and segments[-1].rows <= 2 * size and size + segments[-1].rows <= SEGMENT_ROWS:
            size += segments.pop().rows
        if new.rows:
            merged = merge([*older[len(segments) :], new])
            body = encode_packed(merged)
            key = self._put_segment(scope, body)
            held.segments[key] = merged
            segments.append(_Segment(key=key, rows=len(merged.rows), size_bytes=len(body)))
        self._replace(scope, MemoryManifest(segments=tuple(segments), covered=covered))

    def _replace(self, scope: MemoryScope, manifest: MemoryManifest) -> None:
        body = msgspec.json.encode(manifest)
        self._artifacts.replace(f"{prefix(scope)}/manifest", body, mime="application/json")


def prefix(scope: MemoryScope) -> str:
    """Return the key prefix of a scope's objects. Raises InputError if its names are not safe in a key."""
    tenant, project = check_segment(scope.tenant, "tenant"), check_segment(scope.project, "project")
    return f"mem/{tenant}/{project}/{hashlib.sha256(scope.user.encode()).hexdigest()[:32]}"
