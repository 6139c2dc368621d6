"""Archive members: limits, problems, and checks of names."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final

from stepline.model.base import Value
from stepline.model.program.execution import MIB
from stepline.model.traversal import find_ambiguity, fold_name

ARCHIVE_CHUNK_BYTES: Final = 64 * 1024

# Top-level folders that no project has. `bin`, `lib` and `home` are left out, because projects have them.
_PLACES: Final = frozenset(
    {"boot", "dev", "etc", "executed_programs", "lib64", "logs", "proc", "root", "run", "sbin", "sys"}
    | {"tmp", "usr", "var", "workspace"}
)
_LOGS: Final = frozenset(
    f"{name}.log"
    for name in ("docker.err", "docker.out", "executor", "infra", "runtime.err", "supervisor", "user")
)
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_SHOWN_CHARS: Final = 200


class ArchiveLimits(Value):
    """Limits of an archive. The ratio counts from `ratio_from_bytes` inflated on: small text packs well."""

    max_entries: int = 10_000
    max_inflated_bytes: int = 512 * MIB
    max_ratio: int = 200
    ratio_from_bytes: int = 16 * MIB


class ArchiveProblem(Value):
    """A reason to refuse an archive; `member` is empty for the archive as a whole."""

    code: str
    message: str
    member: str = ""


class Unfit(Exception):  # noqa: N818 - not an error: it ends one inspection and never leaves it
    """The inspection of an archive cannot continue because of this problem."""

    def __init__(self, code: str, message: str, member: str = "") -> None:
        super().__init__(message)
        self.problem = ArchiveProblem(code=code, message=message, member=shown(member))


def unreadable(message: str, member: str = "") -> Unfit:
    return Unfit("archive_unreadable", message, member)


class Budget:
    """Count the bytes actually inflated from an archive of `packed_bytes`, and raise at a limit."""

    def __init__(self, limits: ArchiveLimits, packed_bytes: int) -> None:
        self._limits = limits
        self._packed_bytes = max(packed_bytes, 1)
        self._inflated_bytes = 0
        self._entries = 0

    @property
    def entries(self) -> int:
        return self._entries

    def enter(self) -> None:
        """Count one member. Raises Unfit."""
        self._entries += 1
        if self._entries > self._limits.max_entries:
            raise Unfit("archive_too_many_entries", f"it has more than {self._limits.max_entries} members")

    def inflate(self, size_bytes: int, member: str = "") -> None:
        """Count inflated bytes. Raises Unfit."""
        self._inflated_bytes += size_bytes
        if self._inflated_bytes > self._limits.max_inflated_bytes:
            message = f"it holds more than {self._limits.max_inflated_bytes} bytes"
            raise Unfit("archive_too_large", message, member)
        most = self._packed_bytes * self._limits.max_ratio
        if self._inflated_bytes > max(most, self._limits.ratio_from_bytes):
            message = f"it grows to more than {self._limits.max_ratio} times its size"
            raise Unfit("archive_ratio_too_high", message, member)


def drained(inflater: zlib._Decompress, packed: bytes) -> Iterator[bytes]:
    """Yield the inflated bytes of some packed ones, at most `ARCHIVE_CHUNK_BYTES` at a time. Raises zlib.error."""
    rest, chunk = packed, b""
    while not inflater.eof and (rest or len(chunk) == ARCHIVE_CHUNK_BYTES):
        chunk = inflater.decompress(rest, ARCHIVE_CHUNK_BYTES)
        rest = inflater.unconsumed_tail
        yield chunk


def judge_name(name: str) -> ArchiveProblem | None:
    """Return the problem of a member's name on any system. Pure."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    if not name or "\0" in name:
        return _problem("archive_path_escape", "the member has no proper name", name)
    if name.startswith(("/", "\\")) or _DRIVE.match(name):
        return _problem("archive_path_escape", "the member's name is absolute", name)
    if ".." in parts:
        return _problem("archive_path_escape", "the member's name leads out of its folder", name)
    if parts and parts[0].casefold() in _PLACES:
        return _problem(
            "archive_internal_path", f"{parts[0]!r} is a folder of the system or of the run", name
        )
    if parts and parts[-1].casefold() in _LOGS:
        return _problem("archive_runtime_log", "the member is named like a log of the run", name)
    return None


def judge_elsewhere(name: str, taken: set[str], *, is_folder: bool = False) -> ArchiveProblem | None:
    """Return the problem of a name that is ambiguous on another system; add a file's name to `taken`."""
    if "\\" in name:
        return _problem("archive_name_ambiguous", "a backslash separates folders on some systems only", name)
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ambiguity := next(filter(None, map(find_ambiguity, parts)), None):
        return _problem("archive_name_ambiguous", ambiguity[1], name)
    folded = fold_name("/".join(parts))
    if not is_folder and folded in taken:
        return _problem("archive_name_clash", "two members have one name, at least on some systems", name)
    if not is_folder:
        taken.add(folded)
    return None


def judge_link(name: str) -> ArchiveProblem:
    return _problem("archive_not_regular_file", "the member is a link or a device", name)


def _problem(code: str, message: str, member: str) -> ArchiveProblem:
    return ArchiveProblem(code=code, message=message, member=shown(member))


def shown(member: str) -> str:
    """Return a member's name, escaped for any log."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in member[:_SHOWN_CHARS]
    )
