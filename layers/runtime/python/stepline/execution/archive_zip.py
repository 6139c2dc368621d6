"""Zip archives, inflated by ourselves.

The standard library reads the directory at the end; it would also cut each member at the size that the directory
states, and so hide what other programs unpack. Hence a member counts as it is stored: it ends where its data end,
and directory, local header, size and checksum have to agree.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stepline.execution.archive_member import (
    CHUNK_BYTES,
    ArchiveLimits,
    ArchiveProblem,
    Budget,
    drained,
    judge_link,
    judge_name,
    unreadable,
)

_DIRECTORY_ENTRY_BYTES: Final = 256
_MEMBER: Final = b"PK\x03\x04"
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_ENCRYPTED: Final = 0x1
_UTF8: Final = 0x800
BROKEN: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    IndexError,
    OverflowError,
    ValueError,
)
"""What the standard library raises for a file that is no zip archive, or a damaged one."""


class BoundedFile(io.FileIO):
    """A zip file of which nobody reads much at once: the directory is read in one piece, of the size it states."""

    def __init__(self, path: Path, piece_max_bytes: int) -> None:
        super().__init__(path, "rb")
        self._piece_max_bytes = piece_max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self._piece_max_bytes:
            raise zipfile.BadZipFile("the directory is too large")
        return super().read(self._piece_max_bytes if size is None or size < 0 else size) or b""


def inspect_zip(path: Path, budget: Budget, limits: ArchiveLimits) -> Iterator[ArchiveProblem]:
    """Yield what is wrong with each member. Raises Unfit, OSError."""
    with BoundedFile(path, max(limits.max_entries * _DIRECTORY_ENTRY_BYTES, 2 * CHUNK_BYTES)) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
            file.seek(0)
            if members and file.read(4) != _MEMBER:
                raise unreadable("something precedes its first member")
        except BROKEN as error:
            raise unreadable(f"no directory of a zip archive can be read: {error}") from error
        for member in members:
            budget.enter()
            problem = judge_name(member.orig_filename)
            if problem is None and not _is_plain(member):
                problem = judge_link(member.orig_filename)
            if problem is not None:
                yield problem
            try:
                _inflate(file, member, budget)
            except BROKEN as error:
                raise unreadable(f"a member cannot be read: {error}", member.orig_filename) from error


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """Tell files and folders from links and devices; archives of other systems state no kind."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    return kind in (0, stat.S_IFREG, stat.S_IFDIR)


def _inflate(file: io.FileIO, member: zipfile.ZipInfo, budget: Budget) -> None:
    """Inflate one member to nowhere. Raises what `BROKEN` names, Unfit."""
    name = member.orig_filename
    file.seek(member.header_offset)
    magic, _, flags, method, *_, name_bytes, extra_bytes = _LOCAL.unpack(file.read(_LOCAL.size))
    if magic != _MEMBER or method != member.compress_type:
        raise unreadable("directory and member disagree", name)
    if flags & _ENCRYPTED or member.flag_bits & _ENCRYPTED:
        raise unreadable("it is encrypted", name)
    if file.read(name_bytes).decode("utf-8" if flags & _UTF8 else "cp437") != name:
        raise unreadable("directory and member have different names", name)
    file.seek(extra_bytes, io.SEEK_CUR)
    size_bytes = checksum = 0
    for chunk in _chunks(file, member):
        budget.inflate(len(chunk), name)
        size_bytes += len(chunk)
        checksum = zlib.crc32(chunk, checksum)
    if (size_bytes, checksum) != (member.file_size, member.CRC):
        raise unreadable("it holds other bytes than it states", name)


def _chunks(file: io.FileIO, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield what a member holds, at most `CHUNK_BYTES` at a time."""
    if member.compress_type == zipfile.ZIP_STORED:
        yield from _packed(file, member)
        return
    if member.compress_type != zipfile.ZIP_DEFLATED:
        raise unreadable("only stored and deflated members can be looked into", member.orig_filename)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for packed in _packed(file, member):
        if inflater.eof:
            raise unreadable("it is shorter than it states", member.orig_filename)
        yield from drained(inflater, packed)
    if not inflater.eof or inflater.unused_data:
        raise unreadable("it is longer or shorter than it states", member.orig_filename)


def _packed(file: io.FileIO, member: zipfile.ZipInfo) -> Iterator[bytes]:
    left = member.compress_size
    while left > 0:
        chunk = file.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise EOFError("it ends too early")
        left -= len(chunk)
        yield chunk
