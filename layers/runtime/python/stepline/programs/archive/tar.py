"""Tar archives and gzip streams, read once from front to back.

The standard library decodes single header blocks; the rest is done here, because its
reader holds all members, trusts their sizes and skips what it cannot read.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from stepline.programs.archive.member import (
    ARCHIVE_CHUNK_BYTES,
    ArchiveProblem,
    Budget,
    drained,
    judge_elsewhere,
    judge_link,
    judge_name,
    unreadable,
)

_BLOCK_BYTES: Final = tarfile.BLOCKSIZE
_EXTENSION_MAX_BYTES: Final = 64 * 1024
_LONG: Final = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
_PAX: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_PLAIN: Final = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


def raw_chunks(path: Path, budget: Budget) -> Iterator[bytes]:
    """Yield a file unchanged, counted. Raises Unfit, OSError."""
    with path.open("rb") as file:
        while chunk := file.read(ARCHIVE_CHUNK_BYTES):
            budget.inflate(len(chunk))
            yield chunk


def gzip_chunks(path: Path, budget: Budget) -> Iterator[bytes]:
    """Yield the content of a gzip file, all its streams, counted while inflated. Raises Unfit, OSError."""
    with path.open("rb") as file:
        inflater, rest = _gunzip(), b""
        while rest := rest or file.read(ARCHIVE_CHUNK_BYTES):
            if inflater.eof:  # another stream begins, or zeros fill the last block
                rest = rest.lstrip(b"\0")
                if not rest:
                    continue
                inflater = _gunzip()
            try:
                for chunk in drained(inflater, rest):
                    budget.inflate(len(chunk))
                    yield chunk
            except zlib.error as error:
                raise unreadable(f"it is no gzip file: {error}") from error
            rest = inflater.unused_data
        if not inflater.eof:
            raise unreadable("it ends too early")


def _gunzip() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def inspect_gzip(path: Path, budget: Budget) -> Iterator[ArchiveProblem]:
    """Yield the problems of a gzip file, and of the members of a tar archive in it. Raises Unfit, OSError."""
    stream = _Stream(gzip_chunks(path, budget))
    head = stream.read(_BLOCK_BYTES)
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        if not stream.is_blank() or head.strip(b"\0"):
            budget.enter()
    else:
        yield from inspect_tar(chain((head,), stream.rest()), budget)


class _Stream:
    """Read chunks in pieces of the requested size."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = b""

    def read(self, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes, fewer at the end."""
        pieces, missing = [], size_bytes
        while missing and self._fill():
            piece, self._held = self._held[:missing], self._held[missing:]
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def skip(self, size_bytes: int) -> None:
        """Skip bytes. Raises Unfit if the stream ends before."""
        missing = size_bytes
        while missing:
            if not self._fill():
                raise unreadable("it ends too early")
            passed = min(missing, len(self._held))
            self._held = self._held[passed:]
            missing -= passed

    def rest(self) -> Iterator[bytes]:
        """Yield the remaining chunks."""
        while self._fill():
            held, self._held = self._held, b""
            yield held

    def is_blank(self) -> bool:
        """Read to the end; return True if the rest is only zeros."""
        blank = True
        for held in self.rest():
            blank = blank and not held.strip(b"\0")
        return blank

    def _fill(self) -> bool:
        while not self._held:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._held = chunk
        return True


def inspect_tar(chunks: Iterator[bytes], budget: Budget) -> Iterator[ArchiveProblem]:
    """Yield the problem of each member that has one. Raises Unfit, OSError."""
    stream = _Stream(chunks)
    names: list[str] = []
    taken: set[str] = set()
    size_bytes: int | None = None
    while (header := _header(stream)) is not None:
        if header.type in _LONG + _PAX:
            budget.enter()
            found, size = _extension(header, stream)
            names += found
            size_bytes = size_bytes if size is None else size
            continue
        budget.enter()
        yield from _judge(header, names, taken)
        stream.skip(_padded(_size(header, size_bytes)))
        names, size_bytes = [], None
    if names or size_bytes is not None:
        raise unreadable("a header follows no member")


def _header(stream: _Stream) -> tarfile.TarInfo | None:
    """Return the next header; None at the end, after which only zeros may follow."""
    block = stream.read(_BLOCK_BYTES)
    if not block:
        return None
    if not block.strip(b"\0"):
        if not stream.is_blank():
            raise unreadable("something follows the archive's end")
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise unreadable(f"a header cannot be read: {error}") from error


def _judge(header: tarfile.TarInfo, names: list[str], taken: set[str]) -> Iterator[ArchiveProblem]:
    """Judge a member by each name that its headers give it: readers differ in the one that they use."""
    name = names[-1] if names else header.name
    problems = [judge_name(one) for one in (header.name, *names)]
    if header.type not in (*_PLAIN, tarfile.DIRTYPE):
        problems.append(judge_link(name))
    problems.append(judge_elsewhere(name, taken, is_folder=header.isdir()))
    found = next((problem for problem in problems if problem is not None), None)
    if found is not None:
        yield found


def _size(header: tarfile.TarInfo, stated_bytes: int | None) -> int:
    """Return the number of bytes that follow a member's header."""
    size_bytes = header.size if stated_bytes is None else stated_bytes
    if size_bytes < 0 or (size_bytes and header.type not in _PLAIN):
        raise unreadable("a member has a size it cannot have", header.name)
    return size_bytes


def _extension(header: tarfile.TarInfo, stream: _Stream) -> tuple[list[str], int | None]:
    """Read a header that describes the next member; return its names and size."""
    if not 0 <= header.size <= _EXTENSION_MAX_BYTES:
        raise unreadable("a header is too large", header.name)
    body = stream.read(_padded(header.size))[: header.size]
    if len(body) < header.size:
        raise unreadable("it ends too early")
    if header.type in _LONG:
        name = body.rstrip(b"\0").decode("utf-8", "surrogateescape")
        return ([name] if header.type == tarfile.GNUTYPE_LONGNAME else []), None
    return _pax(body, everywhere=header.type == tarfile.XGLTYPE)


def _pax(body: bytes, *, everywhere: bool) -> tuple[list[str], int | None]:
    """Read the records `<length> <key>=<value>` of a header that concern name, size and kind."""
    names: list[str] = []
    size_bytes: int | None = None
    at = 0
    while at < len(body):
        digits, blank, _ = body[at : at + 8].partition(b" ")
        if not blank or not digits.isdigit():
            raise unreadable("a header cannot be read")
        record = body[at + len(digits) + 1 : at + int(digits)]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise unreadable("a header cannot be read")
        at += int(digits)
        concerns = key in (b"path", b"size") or key.startswith(b"GNU.sparse.")
        if concerns and (everywhere or key not in (b"path", b"size")):
            raise unreadable("a header gives members a size or name that not every reader knows")
        if key == b"path":
            names.append(value[:-1].decode("utf-8", "surrogateescape"))
        elif key == b"size":
            size_bytes = _number(value[:-1])
    return names, size_bytes


def _number(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise unreadable("a member has a size it cannot have")
    return int(value)


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
