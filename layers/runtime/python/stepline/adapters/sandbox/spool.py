"""The spool: a folder of our own in which collected bytes lie, each file under its sha256."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from stepline.adapters.sandbox.tree import open_folder
from stepline.errors import SandboxError

CHUNK_BYTES: Final = 1024 * 1024
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTIAL: Final = "partial"


class TooLarge(Exception):  # noqa: N818 - no error: it ends one copy and never leaves this package
    """The source holds more than may be taken over."""


def digest(fd: int, max_bytes: int, *, into: int | None = None) -> tuple[str, int]:
    """Return sha256 and size of what an open file holds from here on, and write it to another one on the way.

    Raises:
        TooLarge: more than `max_bytes` came.
        OSError: the file cannot be read.
        SandboxError: `collect_failed`, the other one cannot be written.
    """
    sha256, size_bytes = hashlib.sha256(), 0
    while chunk := os.read(fd, CHUNK_BYTES):
        size_bytes += len(chunk)
        if size_bytes > max_bytes:
            raise TooLarge
        sha256.update(chunk)
        if into is not None:
            _write(into, chunk)
    return sha256.hexdigest(), size_bytes


class Spool:
    """Takes over bytes while it hashes them, within a limit that is counted on what is really read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            self._fd = open_folder(self._path)
        except OSError as error:
            raise _failed(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def take(self, source: int, max_bytes: int) -> tuple[str, int]:
        """Copy an open file from here on; return sha256 and size, by which the bytes lie in the spool.

        A file that grows while it is read is copied up to the limit and then refused; a hole counts as its
        zeros. Bytes that the spool has already are not kept twice.

        Raises:
            TooLarge: more than `max_bytes` came; nothing is left of them.
            OSError: the source cannot be read.
            SandboxError: `collect_failed`, the spool cannot be written.
        """
        target = self._open()
        try:
            sha256, size_bytes = digest(source, max_bytes, into=target)
            self._keep(sha256)
        except BaseException:
            with contextlib.suppress(OSError):  # the first failure is the one to tell
                os.unlink(_PARTIAL, dir_fd=self._fd)
            raise
        finally:
            os.close(target)
        return sha256, size_bytes

    def _open(self) -> int:
        try:
            return os.open(_PARTIAL, _CREATE, 0o600, dir_fd=self._fd)
        except OSError as error:
            raise _failed(error) from error

    def _keep(self, sha256: str) -> None:
        """Give the copy its name; a file of that name has the same bytes, replacing it changes nothing."""
        try:
            os.rename(_PARTIAL, sha256, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError as error:
            raise _failed(error) from error


def _write(target: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError as error:
        raise _failed(error) from error


def _failed(error: OSError) -> SandboxError:
    return SandboxError(f"the spool cannot be written: {error.strerror}", code="collect_failed")
