"""A record: a conversation's log and the bytes that it names in one file, with the settings of its stage.

    record.json             the format, the lane, the settings by their variables
    logs/<conversation>     its batches, one in a line; those of a fork's origins up to the fork are logs of their own
    objects/<key>           stored bytes: texts, system parts, lists of tools, files

Source: docs/how-to/replay.md#a-record-in-a-file.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import msgspec

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.errors import DependencyError, InputError, SteplineError
from stepline.log.journal import fork_of, lane_of, origin_lane
from stepline.log.spill import INCOMPLETE, fetch_body
from stepline.model.base import Value
from stepline.model.batch import Batch, decode_batch, encode_batch, forked_from, home_lane
from stepline.model.block import Body
from stepline.model.entry import Decided, Inbound, Listed
from stepline.model.ids import Lane, make_lane
from stepline.model.path import out_key
from stepline.ports.artifacts import Artifacts
from stepline.ports.log import Log
from stepline.replay.load_record import load_record, place_of
from stepline.settings import TABLE

FORMAT: Final = 1
RECORD_BYTES: Final = 1024 * 1024 * 1024
"""The most bytes of a record's members together."""
RECORD_HEAD: Final = "record.json"
INVALID: Final = "record_invalid"
KEPT_SETTINGS: Final = tuple(
    row.variable
    for row in TABLE.values()
    if not row.secret
    and row.variable.startswith(
        (
            *("AI_REACT_", "REACT_", "MODALITY_", "PY_CODE_EXEC_", "EXEC_RUNTIME_", "STEPLINE_EXEC_PACKAGES"),
            *("STEPLINE_BUNDLE", "STEPLINE_PROTOCOL", "STEPLINE_MAX_ACTIONS", "STEPLINE_APPROVALS"),
            *("STEPLINE_CONTEXT_", "STEPLINE_CACHE_", "STEPLINE_KEEP_", "STEPLINE_PRICES", "STEPLINE_MCP_"),
            *("STEPLINE_SEARCH_PROVIDER", "STEPLINE_SEARCH_CORPUS"),
        )
    )
)
"""The variables that a record keeps: those that change what the model reads. None is an address or a secret."""
_DAMAGED: Final = (OSError, BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, struct.error)
"""Exceptions that reading raises for a file that is no zip, or a damaged one."""


class RecordHead(Value, forbid_unknown_fields=True):
    """The description of a record."""

    format: int
    tenant: str
    project: str
    conversation: str
    settings: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class ConversationRecord:
    """A recorded conversation: where its log and its bytes are, and the variables of the functions that ran it."""

    log: Log
    artifacts: Artifacts
    lane: Lane
    variables: Mapping[str, str]


def write_record_file(
    path: Path, record: ConversationRecord, *, overwrite: bool = False, upto: int | None = None
) -> None:
    """Write a record as a file, whole or not at all; with `upto` it ends with that batch.

    A file that a person deleted is left out: no request has its bytes. Raises InputError: `record_incomplete`, another
    text is gone; `file_exists`, `not_writable`. Raises the errors of `load_record`.
    """
    whole = load_record(record.log, record.artifacts, record.lane, upto=upto)
    if upto is not None:
        record = dataclasses.replace(record, lane=lane_of(record.log, record.lane, upto))
    logs = list(_logs(record.log, record.lane, upto))
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} exists already; --overwrite replaces it", code="file_exists")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            fresh = Path(file.name)
            try:
                with ZipFile(file, "w", ZIP_DEFLATED) as archive:
                    _write(archive, record, logs, whole)
                file.close()
                fresh.replace(path)
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", code="not_writable") from error


def copy_record(record: ConversationRecord, log: Log, artifacts: Artifacts) -> None:
    """Copy a record into another store of logs and objects. Raises the errors of `write_record_file`."""
    whole = load_record(record.log, record.artifacts, record.lane)
    logs = list(_logs(record.log, record.lane, None))
    for here, batches in reversed(logs):
        for batch in batches:
            log.put(here, batch)
    for key, body in _objects(record, logs, whole):
        artifacts.put(key, body, mime="")


def _logs(log: Log, lane: Lane, upto: int | None) -> Iterator[tuple[Lane, list[Batch]]]:
    """Yield the log of a conversation and those of its origins, as they are stored, up to the fork or to `upto`."""
    end, here = upto, lane
    while True:
        yield here, log.since(here, 0, upto=end, consistent=True)
        if (first := fork_of(log, here)) is None:
            return
        end = first.n if end is None else min(end, first.n)
        here = origin_lane(here, first)


def _write(
    archive: ZipFile, record: ConversationRecord, logs: Sequence[tuple[Lane, list[Batch]]], whole: list[Batch]
) -> None:
    lane = record.lane
    head = RecordHead(
        format=FORMAT,
        tenant=lane.tenant,
        project=lane.project,
        conversation=lane.conversation,
        settings={name: record.variables[name] for name in KEPT_SETTINGS if record.variables.get(name)},
    )
    archive.writestr(RECORD_HEAD, msgspec.json.format(msgspec.json.encode(head)))
    for here, batches in logs:
        lines = b"".join(b"%s\n" % encode_batch(batch) for batch in batches)
        archive.writestr(f"logs/{here.conversation}", lines)
    for key, body in _objects(record, logs, whole):
        archive.writestr(f"objects/{key}", body)


def _objects(
    record: ConversationRecord, logs: Sequence[tuple[Lane, list[Batch]]], whole: list[Batch]
) -> Iterator[tuple[str, bytes]]:
    """Yield each object that a log names, with its key. Raises InputError `record_incomplete`."""
    spilled = (
        (place_of(one), piece.key, piece.sha256, True)
        for _, own in logs
        for one in own
        for piece in one.spilled
    )
    seen: set[str] = set()
    for place, key, sha256, needed in (*spilled, *_named(record.lane, whole)):
        if key in seen:
            continue
        seen.add(key)
        try:
            yield key, fetch_body(record.artifacts, key, sha256)
        except DependencyError as error:
            if error.reason != "body_missing":
                raise
            if needed:
                raise InputError(
                    f"{place}: a text of the record is gone from the store", code=INCOMPLETE
                ) from error


def _named(lane: Lane, whole: Sequence[Batch]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the objects that the entries of a log name: the place, the key, the hash, and whether a request has them."""
    for batch in whole:
        home, place = home_lane(lane, whole, batch.n), place_of(batch)
        for entry in batch.entries:
            if isinstance(entry, Decided):
                staged = entry.sent.staged if entry.sent else ""
                for sha256 in filter(None, (entry.system, staged)):
                    yield place, out_key(home, batch.state.turn, sha256), sha256, True
            if isinstance(entry, Inbound):
                for file in entry.attachments:
                    yield place, file.key(home), file.sha256, False
            for body in _bodies(entry):
                yield place, body.key, body.sha256, isinstance(entry, Listed)


def _bodies(value: Any) -> Iterator[Body]:
    """Yield the bodies within an entry."""
    if isinstance(value, Body):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _bodies(getattr(value, name))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _bodies(one)


# --- read


def read_record_file(path: Path) -> ConversationRecord:
    """Read a record into memory.

    Raises InputError: `record_invalid`, with the member, the line and the key; `record_incomplete`, batches are missing;
    `format_newer`.
    """
    try:
        with ZipFile(path) as archive:
            if sum(row.file_size for row in archive.infolist()) > RECORD_BYTES:
                _refuse(path, "", f"it has more than {RECORD_BYTES} bytes")
            head = _read_head(path, archive)
            members = {name: archive.read(name) for name in archive.namelist() if name != RECORD_HEAD}
    except _DAMAGED as error:
        _refuse(path, "", str(error))
    try:
        lane = make_lane(head.tenant, head.project, head.conversation)
    except SteplineError as error:
        _refuse(path, RECORD_HEAD, str(error))
    artifacts = MemoryArtifacts()
    for name, body in members.items():
        if name.startswith("objects/"):
            artifacts.put(name.removeprefix("objects/"), body, mime="")
    log = MemoryLog()
    _read_log(path, members, log, lane, None)
    return ConversationRecord(log=log, artifacts=artifacts, lane=lane, variables=dict(head.settings))


def _read_head(path: Path, archive: ZipFile) -> RecordHead:
    body = archive.read(RECORD_HEAD)
    try:
        found = msgspec.json.decode(body)
        version = found.get("format") if isinstance(found, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise InputError(
                f"{path} has format {version}, and this release reads up to {FORMAT}: update stepline",
                code="format_newer",
            )
        return msgspec.json.decode(body, type=RecordHead)
    except msgspec.DecodeError as error:
        _refuse(path, RECORD_HEAD, str(error))


def _read_log(path: Path, members: Mapping[str, bytes], log: MemoryLog, lane: Lane, upto: int | None) -> None:
    """Put the log of a conversation, after those of its origins. Raises InputError."""
    name = f"logs/{lane.conversation}"
    if name not in members:
        raise InputError(f"{path} lacks {name}", code=INCOMPLETE)
    batches = []
    for number, line in enumerate(members[name].splitlines(), 1):
        try:
            batches.append(decode_batch(line))
        except DependencyError as error:
            raise InputError(f"{path}, {name}, line {number}: {error}", code=error.reason) from error
        except (msgspec.MsgspecError, UnicodeError) as error:
            _refuse(path, f"{name}, line {number}", str(error))
    first = forked_from(batches[0]) if batches else None
    begin = first.n if first else 0
    wanted = list(range(begin + 1, begin + 1 + len(batches)))
    numbers = [batch.n for batch in batches]
    if not batches or numbers != wanted or (upto is not None and numbers[-1] < upto):
        gap = next(
            (n for n, found in zip(wanted, numbers, strict=True) if n != found), begin + len(batches) + 1
        )
        raise InputError(f"{path}, {name}: batch {gap} is missing", code=INCOMPLETE)
    if first:
        if (
            upto is not None and first.n >= upto
        ):  # each origin is read up to an earlier batch, so the chain ends
            _refuse(path, f"{name}, line 1", f"its origin has no batch {first.n}")
        _read_log(path, members, log, origin_lane(lane, first), first.n)
    for batch in batches:
        log.put(lane, batch)


def _refuse(path: Path, place: str, why: str) -> NoReturn:
    where = f"{path}, {place}" if place else f"{path}"
    raise InputError(f"{where}: it is no record: {why}"[:1_000], code=INVALID)
