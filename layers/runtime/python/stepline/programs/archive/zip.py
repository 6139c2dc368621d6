"""Zip archives, inflated by ourselves.

The standard library reads the directory at the end; it would also cut each member at the size that the directory
states, and so hide content that other programs unpack. Therefore a member counts as it is stored: it ends where its
data end, and directory, local header, size and checksum must agree. Members, directory and end record cover the file
from its first byte to its last, each byte once: a reader that follows the members and one that follows the directory
see the same, and nothing else fits into the file, before, between or after them.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from stepline.programs.archive.member import (
    ARCHIVE_CHUNK_BYTES,
    ArchiveLimits,
    ArchiveProblem,
    Budget,
    Unfit,
    drained,
    judge_elsewhere,
    judge_link,
    judge_name,
    shown,
    unreadable,
)

_DIRECTORY_ENTRY_BYTES: Final = 256
_MEMBER: Final = b"PK\x03\x04"
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_ENTRY: Final = struct.Struct("<4s24x3H12x")
_END: Final = struct.Struct("<4s4x2H2IH")
_END_64: Final = struct.Struct("<4sQ12x4Q")
_LOCATOR: Final = struct.Struct("<4s4xQ4x")
_DESCRIPTORS: Final = tuple(
    (struct.Struct(f"<{signature}I{sizes}"), prefix)
    for signature, prefix in (("", ()), ("4s", (b"PK\7\x08",)))
    for sizes in ("2I", "2Q")
)
_DESCRIBED: Final = 0x8
_ZIP64_EXTRA: Final = 1
_NAME_EXTRA: Final = 0x7075
"""A second name, in UTF-8, which some readers use and others do not."""
_MAX_16: Final = 0xFFFF
_MAX_32: Final = 0xFFFFFFFF
_ENCRYPTED: Final = 0x1
_UTF8: Final = 0x800
ZIP_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    IndexError,
    OverflowError,
    ValueError,
)
"""Exceptions that the standard library raises for a file that is not a zip archive, or a damaged one."""


class BoundedFile(io.FileIO):
    """A zip file with bounded reads: the standard library reads the directory at once, at its stated size."""

    def __init__(self, path: Path | int, piece_max_bytes: int) -> None:
        """Open a path, or read from an open descriptor, which stays open."""
        super().__init__(path, "rb", closefd=not isinstance(path, int))
        self._piece_max_bytes = piece_max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self._piece_max_bytes:
            raise zipfile.BadZipFile("the directory is too large")
        return super().read(self._piece_max_bytes if size is None or size < 0 else size) or b""


class _BoundedBytes(io.BytesIO):
    """A zip file in memory with bounded reads."""

    def __init__(self, data: bytes, piece_max_bytes: int) -> None:
        super().__init__(data)
        self._piece_max_bytes = piece_max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self._piece_max_bytes:
            raise zipfile.BadZipFile("the directory is too large")
        return super().read(size)


def open_bounded(source: Path | int | bytes, piece_max_bytes: int) -> BoundedFile | _BoundedBytes:
    """Open a path, an open descriptor, or bytes."""
    if isinstance(source, bytes):
        return _BoundedBytes(source, piece_max_bytes)
    return BoundedFile(source, piece_max_bytes)


def inspect_zip(
    source: Path | int | bytes, budget: Budget, limits: ArchiveLimits
) -> Iterator[ArchiveProblem]:
    """Yield the problem of each member that has one. Raises Unfit, OSError."""
    with open_bounded(
        source, max(limits.max_entries * _DIRECTORY_ENTRY_BYTES, 2 * ARCHIVE_CHUNK_BYTES)
    ) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members, directory = archive.infolist(), archive.start_dir
            _check_end(file, directory, len(members))
        except ZIP_ERRORS as error:
            raise unreadable(f"no directory of a zip archive can be read: {error}") from error
        at, taken = 0, set[str]()
        for member in sorted(members, key=lambda member: member.header_offset):
            budget.enter()
            name = member.orig_filename
            if member.header_offset != at:
                raise _untiled(name)
            problem = judge_name(name)
            if problem is None and not _is_plain(member):
                problem = judge_link(name)
            problem = problem or _judge_spelling(member)
            problem = problem or judge_elsewhere(name, taken, is_folder=name.endswith("/"))
            if problem is not None:
                yield problem
            try:
                at = _inflate(file, member, budget)
            except ZIP_ERRORS as error:
                raise unreadable(f"a member cannot be read: {error}", name) from error
        if at != directory:
            raise _untiled()


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """Return True for files and folders, False for links and devices; an unstated kind counts as a file."""
    kind = stat.S_IFMT(member.external_attr >> 16)
    return kind in (0, stat.S_IFREG, stat.S_IFDIR)


def _untiled(member: str = "") -> Unfit:
    return unreadable("there is something before, between or behind its members, or they overlap", member)


def _check_end(file: BoundedFile | _BoundedBytes, directory: int, members: int) -> None:
    """Check that the file ends with a directory of all members and a matching end record.

    Raises Unfit, struct.error.
    """
    file.seek(directory)
    for _ in range(members):
        magic, *lengths = _ENTRY.unpack(file.read(_ENTRY.size))
        if magic != b"PK\1\2":
            raise unreadable("its directory has other members than it states")
        file.seek(sum(lengths), io.SEEK_CUR)
    end = file.tell()
    stated = None
    if (found := file.read(_END_64.size))[:4] == b"PK\6\6":
        _, rest_bytes, *stated = _END_64.unpack(found)
        magic, place = _LOCATOR.unpack(file.read(_LOCATOR.size))
        if (magic, place, rest_bytes) != (b"PK\6\7", end, _END_64.size - 12):
            raise _untiled()
    else:
        file.seek(end)
    magic, *short, comment = _END.unpack(file.read(_END.size))
    if magic != b"PK\5\6" or file.seek(comment, io.SEEK_CUR) != file.seek(0, io.SEEK_END):
        raise _untiled()
    wanted = [members, members, end - directory, directory]
    limits = (_MAX_16, _MAX_16, _MAX_32, _MAX_32)
    agrees = all(
        one == right or (stated and one == most)
        for one, right, most in zip(short, wanted, limits, strict=True)
    )
    if not agrees or stated not in (None, wanted):
        raise unreadable("its directory is not where or what its end states")


def _inflate(file: BoundedFile | _BoundedBytes, member: zipfile.ZipInfo, budget: Budget) -> int:
    """Inflate one member without keeping it; return the offset of its end. Raises the errors of `BROKEN`, Unfit."""
    name = member.orig_filename
    file.seek(member.header_offset)
    head = _LOCAL.unpack(file.read(_LOCAL.size))
    magic, _, flags, method, _, _, checksum, packed_bytes, size_bytes, name_bytes, extra_bytes = head
    if magic != _MEMBER or method != member.compress_type:
        raise unreadable("directory and member disagree", name)
    if flags & _ENCRYPTED or member.flag_bits & _ENCRYPTED:
        raise unreadable("it is encrypted", name)
    if file.read(name_bytes).decode("utf-8" if flags & _UTF8 else "cp437") != name:
        raise unreadable("directory and member have different names", name)
    fields = _fields(file.read(extra_bytes))
    if _NAME_EXTRA in fields:
        raise unreadable("directory and member have different names", name)
    size_bytes, packed_bytes = _long_sizes(fields, size_bytes, packed_bytes)
    stated = (checksum, packed_bytes, size_bytes)
    if not flags & _DESCRIBED and stated != (member.CRC, member.compress_size, member.file_size):
        raise unreadable("directory and member state different sizes", name)
    size_bytes = checksum = 0
    for chunk in _chunks(file, member):
        budget.inflate(len(chunk), name)
        size_bytes += len(chunk)
        checksum = zlib.crc32(chunk, checksum)
    if (size_bytes, checksum) != (member.file_size, member.CRC):
        raise unreadable("it holds other bytes than it states", name)
    return file.tell() + (_descriptor_bytes(file, member) if flags & _DESCRIBED else 0)


def _long_sizes(fields: Mapping[int, bytes], size_bytes: int, packed_bytes: int) -> tuple[int, int]:
    """Return a member's sizes; large ones are in the extra field. Raises struct.error."""
    if _MAX_32 not in (size_bytes, packed_bytes) or _ZIP64_EXTRA not in fields:
        return size_bytes, packed_bytes
    size_bytes, packed_bytes = struct.unpack_from("<2Q", fields[_ZIP64_EXTRA])
    return size_bytes, packed_bytes


def _fields(extra: bytes) -> dict[int, bytes]:
    """Return the extra fields of a header by their kind, the first of each."""
    fields: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        fields.setdefault(kind, extra[at + 4 : at + 4 + length])
        at += 4 + length
    return fields


def _judge_spelling(member: zipfile.ZipInfo) -> ArchiveProblem | None:
    """Return a problem if readers may decode a member's name differently."""
    stated = member.orig_filename.isascii() or member.flag_bits & _UTF8
    if stated and _NAME_EXTRA not in _fields(member.extra):
        return None
    return ArchiveProblem(
        code="archive_name_ambiguous",
        message="the member's name is in no stated encoding, or it has a second one",
        member=shown(member.orig_filename),
    )


def _descriptor_bytes(file: BoundedFile | _BoundedBytes, member: zipfile.ZipInfo) -> int:
    """Return the length of the data descriptor after a member. Raises Unfit."""
    at = file.tell()
    found = file.read(max(form.size for form, _ in _DESCRIPTORS))
    file.seek(at)
    facts = (member.CRC, member.compress_size, member.file_size)
    for form, prefix in _DESCRIPTORS:
        if found.startswith(form.pack(*prefix, *facts)):
            return form.size
    raise unreadable("directory and member state different sizes", member.orig_filename)


def _chunks(file: BoundedFile | _BoundedBytes, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield a member's content, at most `ARCHIVE_CHUNK_BYTES` at a time."""
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


def _packed(file: BoundedFile | _BoundedBytes, member: zipfile.ZipInfo) -> Iterator[bytes]:
    left = member.compress_size
    while left > 0:
        chunk = file.read(min(left, ARCHIVE_CHUNK_BYTES))
        if not chunk:
            raise EOFError("it ends too early")
        left -= len(chunk)
        yield chunk
