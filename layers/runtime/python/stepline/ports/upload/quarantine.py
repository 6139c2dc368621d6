"""Uploads: the quarantine that clients post files to, and the checks of those files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from stepline.model.base import Value
from stepline.model.file.file_verdict import FileLimits, FileVerdict

Infection: TypeAlias = Literal["clean", "infected", "unknown"]
"""The finding of a scanner; `unknown`: it has no result now."""


class PostGrant(Value):
    """The right to post one file: the form's address, and its fields, which precede the file. Secret."""

    url: str
    fields: Mapping[str, str]


class Quarantine(Protocol):
    """The part of the object store that clients post to, under keys of `quarantine_key`."""

    def allow(self, key: str, *, mime: str, size_bytes: int, ttl_s: int) -> PostGrant:
        """Return the right to post an object of exactly this type and size, for `ttl_s` seconds."""

    def fetch(self, key: str, into: Path, *, max_bytes: int) -> int | None:
        """Write an object to a file, and return its size; None if it does not exist.

        Stop after `max_bytes`. Raises DependencyError.
        """

    def remove(self, key: str) -> None:
        """Delete an object; do nothing if it does not exist. Raises DependencyError."""


class Preflight(Protocol):
    """Judges files by their bytes, in a sandbox where a failing parser can do no harm."""

    def judge(self, path: Path, *, filename: str, mime: str, limits: FileLimits) -> FileVerdict:
        """Return the verdict; if the check fails or takes too long, the file is refused with `preflight_error`."""


class Scanner(Protocol):
    """Looks for malware."""

    def scan(self, path: Path, key: str) -> Infection:
        """Return the finding for a file; `key` is the object that it was fetched from."""
