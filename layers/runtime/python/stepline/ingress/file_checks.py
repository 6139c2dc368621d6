"""Checks of a file from outside: its claims, a scan for malware, and its bytes; and files that a process attaches itself.

An upload passes them in quarantine (`ingress/upload.py`), a file of a payload before its message is admitted.
Source: docs/how-to/uploads.md#accepted-files.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stepline.errors import InputError, LimitError, NotFoundError
from stepline.ingress.event_validation import check_attached
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_alive, check_owner
from stepline.model.base import Value
from stepline.model.batch import EMPTY, Batch
from stepline.model.file.attachment import Attachment, attachment_key, check_attachment
from stepline.model.file.charset import with_charset
from stepline.model.file.file_verdict import MALWARE, SIZE, FileLimits, FileVerdict
from stepline.model.ids import Lane
from stepline.ports.upload.quarantine import Preflight, Scanner
from stepline.preflight.judge_file import agreed_mime, judge_claim

UNREADABLE: Final = "file_unreadable"


@dataclass(frozen=True, kw_only=True)
class FileChecks:
    """The checks of files; without a scanner no file is scanned."""

    preflight: Preflight
    scanner: Scanner | None = None
    limits: FileLimits = field(default_factory=FileLimits)

    def check_claim(self, file: Attachment) -> None:
        """Refuse a file by what is claimed about it.

        Raises:
            InputError: `bad_attachment`, `empty`, or the code of a rule, such as `type_not_allowed`.
            LimitError: `size_limit`.
        """
        verdict = judge_claim(file.filename, file.mime, file.size_bytes, self.limits)
        if verdict.code == SIZE:
            raise LimitError(verdict.message, code=SIZE)
        check_attachment(file)
        if not verdict.accepted:
            raise InputError(verdict.message, code=next(iter(verdict.reasons), verdict.code))

    def judge(self, path: Path, key: str, file: Attachment) -> FileVerdict:
        """Return the verdict on the bytes of a file; `key` is the object that it was fetched from."""
        match self.scanner.scan(path, key) if self.scanner else "clean":
            case "infected":
                return FileVerdict(code=MALWARE, message="malware was found in the file")
            case "unknown":
                return FileVerdict(
                    code="av_unavailable", message="it could not be scanned for malware; try again later"
                )
            case _:
                return self.preflight.judge(path, filename=file.filename, mime=file.mime, limits=self.limits)


class GivenFile(Value):
    """A file of this process: its bytes, or its path here. Without a type, its name determines the type."""

    filename: str
    content: bytes | Path
    mime: str = ""


def store_files(
    ports: Ports, checks: FileChecks, lane: Lane, *, user: str, given: Sequence[GivenFile | Attachment]
) -> tuple[Attachment, ...]:
    """Check and store the files of an event, as uploads are; return their references, in order. All are judged first.

    Raises:
        InputError: `file_unreadable`; `attachment_rejected`, with the `verdict` and its `reasons`; the errors of
            `FileChecks.check_claim`, `check_attached` and `check_owner`.
        LimitError: `size_limit`; the errors of `check_attached`.
        DependencyError: the log or the artifact store does not answer.
    """
    check_owner(living_tail(ports, lane), user)
    bodies = [None if isinstance(one, Attachment) else _read(one, checks.limits) for one in given]
    files = [
        one if isinstance(one, Attachment) else _claimed(one, body or b"")
        for one, body in zip(given, bodies, strict=True)
    ]
    for file, body in zip(files, bodies, strict=True):
        if body is not None:
            checks.check_claim(file)
    check_attached(ports, "", files)
    judged = [
        file if body is None else _judged(checks, lane, file, body)
        for file, body in zip(files, bodies, strict=True)
    ]
    for file, body in zip(judged, bodies, strict=True):
        if body is not None:
            ports.artifacts.put(attachment_key(lane, file.sha256), body, mime=file.mime)
    return tuple(judged)


def _read(given: GivenFile, limits: FileLimits) -> bytes:
    """Return the bytes of a file; of a larger one than is accepted, one byte more than that."""
    if isinstance(given.content, bytes):
        return given.content
    try:
        with given.content.open("rb") as file:
            return file.read(limits.file_max_bytes + 1)
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", code=UNREADABLE) from error


def _claimed(given: GivenFile, body: bytes) -> Attachment:
    return Attachment(
        filename=given.filename,
        mime=agreed_mime(given.filename, given.mime),
        size_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
    )


def _judged(checks: FileChecks, lane: Lane, file: Attachment, body: bytes) -> Attachment:
    """Return the reference of an accepted file, with its encoding. Raises InputError `attachment_rejected`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(body)
        verdict = checks.judge(path, attachment_key(lane, file.sha256), file)
    if not verdict.accepted:
        raise InputError(
            f"{file.filename} was refused: {verdict.message}",
            code="attachment_rejected",
            verdict=verdict.code,
            reasons=list(verdict.reasons),
        )
    return replace(file, mime=with_charset(file.mime, verdict.charset))


def living_tail(ports: Ports, lane: Lane) -> Batch:
    """Return the newest batch; the empty one if there is none. Raises NotFoundError `conversation_deleted`."""
    tail = ports.log.tail(lane, consistent=True) or EMPTY
    check_alive(tail.state)
    if not tail.n and ports.erasure and ports.erasure.tombstone(lane):
        raise NotFoundError("the conversation was deleted", code=DELETED)
    return tail
