"""Documents to import from this machine: a folder or a zip that an export wrote, or one JSON file.

    *.json, *.jsonl             documents, one or several in a file; with a folder `documents`, those in one alone
    files/…                     bytes of files, by any name: they are found by their hash

Base64 bytes inside a document become separate files. Source: docs/how-to/move-conversations-in.md.
"""

from __future__ import annotations

import binascii
import hashlib
import struct
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile, is_zipfile

import msgspec

from stepline.errors import InputError, LimitError
from stepline.local.safe_text import clean_line
from stepline.log.importing.import_document import Document, decode_document, read_document
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES

DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of one file of documents."""
FILES: Final = "files"
DOCUMENTS: Final = "documents"
CONVERSATIONS: Final = "conversations"
KINDS: Final = (".json", ".jsonl")

DAMAGED: Final = (OSError, BadZipFile, zlib.error, EOFError, KeyError, ValueError, RuntimeError, struct.error)
"""Exceptions that reading raises for a missing file and for a damaged zip."""

Bytes = Callable[[], bytes]
"""Reads the bytes of a file. Raises InputError."""


class _Member(NamedTuple):
    """A file of a folder or a zip: its path there, its size, and its reader."""

    path: PurePosixPath
    size_bytes: int
    read: Bytes


@dataclass(frozen=True, kw_only=True)
class ImportedDocuments:
    """Documents of one conversation, and the bytes of files by their hash."""

    documents: tuple[Document, ...]
    files: Mapping[str, Bytes]


def read_imported_documents(path: Path, *, conversation: str = "") -> ImportedDocuments:
    """Return the documents and files at a path; from the archive of a user, those of `conversation`.

    Raises:
        InputError: `file_unreadable`; `import_nothing`, there are no documents; `import_several`, the archive has several
            conversations; `import_not_json`, `import_unknown_document`.
        LimitError: `import_too_large`.
    """
    members = _choose(list(_list_members(path)), conversation)
    files: dict[str, Bytes] = {}
    documents: list[Document] = []
    for member in members:
        if _folder(member) == FILES:
            if member.size_bytes <= ATTACHMENT_MAX_BYTES:
                files[hashlib.sha256(member.read()).hexdigest()] = member.read
        elif member.path.suffix in KINDS:
            documents += _read_documents(member, files)
    if not documents:
        raise InputError(f"{path} has no documents", code="import_nothing")
    return ImportedDocuments(documents=tuple(documents), files=files)


def first_turn(path: Path) -> str:
    """Return the id of the first turn whose document is at a path, "" without one: of any conversation of an archive."""
    try:
        for member in _list_members(path):
            if member.path.suffix in KINDS and member.size_bytes <= DOCUMENT_BYTES:
                for found in _decode(member.read(), str(member.path)):
                    payload = found.get("payload", found) if isinstance(found, dict) else {}
                    if isinstance(payload, dict) and isinstance(payload.get("turn_id"), str):
                        return str(payload["turn_id"])[:80]
    except InputError:
        return ""
    return ""


def _list_members(path: Path) -> Iterator[_Member]:
    """Yield the files at a path, in the order of their names. Raises InputError `file_unreadable`."""
    try:
        if path.is_dir():
            for found in sorted(path.rglob("*")):
                if found.is_file():
                    where = PurePosixPath(found.relative_to(path).as_posix())
                    yield _Member(where, found.stat().st_size, partial(_read_file, found))
        elif is_zipfile(path):
            with ZipFile(path) as archive:
                rows = sorted((row.filename, row.file_size) for row in archive.infolist() if not row.is_dir())
            for name, size_bytes in rows:
                yield _Member(PurePosixPath(name), size_bytes, partial(_read_zipped, path, name))
        else:
            yield _Member(PurePosixPath(path.name), path.stat().st_size, partial(_read_file, path))
    except DAMAGED as error:
        raise InputError(f"{path} cannot be read: {error}", code="file_unreadable") from error


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}", code="file_unreadable"
        ) from error


def _read_zipped(path: Path, name: str) -> bytes:
    try:
        with ZipFile(path) as archive:
            return archive.read(name)
    except DAMAGED as error:
        raise InputError(f"{name} in {path} cannot be read: {error}", code="file_unreadable") from error


def _choose(members: Sequence[_Member], conversation: str) -> list[_Member]:
    """Return the members of one conversation; without folders of conversations and documents, all of them.

    Raises InputError `import_several`, `import_nothing`.
    """
    found = {member.path.parts[1] for member in members if _is_in_archive(member)}
    if len(found) > 1 and not conversation:
        names = ", ".join(clean_line(name[:80]) for name in sorted(found)[:10])
        raise InputError(f"there are several conversations; choose one: {names}", code="import_several")
    if conversation and conversation not in found:
        raise InputError(f"there is no conversation {conversation[:80]}", code="import_nothing")
    if found:
        name = conversation or found.pop()
        members = [one for one in members if _is_in_archive(one) and one.path.parts[1] == name]
    if any(_folder(member) == DOCUMENTS for member in members):
        return [one for one in members if _folder(one)]
    return list(members)


def _folder(member: _Member) -> str:
    """Return the first of `documents` and `files` above a member, or ""; folders below it are part of a file's name."""
    above = member.path.parts[2 if _is_in_archive(member) else 0 : -1]
    return next((name for name in above if name in (DOCUMENTS, FILES)), "")


def _is_in_archive(member: _Member) -> bool:
    return member.path.parts[0] == CONVERSATIONS and len(member.path.parts) > 2


def _read_documents(member: _Member, files: dict[str, Bytes]) -> Iterator[Document]:
    """Yield the documents of a file, and add the bytes inside them to `files`."""
    name = str(member.path)
    if member.size_bytes > DOCUMENT_BYTES:
        raise LimitError(
            f"{name} has more than {DOCUMENT_BYTES} bytes", code="import_too_large", limit=DOCUMENT_BYTES
        )
    for number, found in enumerate(_decode(member.read(), name)):
        payload = found.get("payload", found) if isinstance(found, dict) else found
        if isinstance(payload, dict) and isinstance(payload.get("blocks"), list):
            for block in payload["blocks"]:
                _store_bytes(block, files)
        yield read_document(msgspec.json.encode(found), f"{name}:{number + 1}" if number else name)


def _decode(body: bytes, name: str) -> list[Any]:
    """Return the JSON values of a file: one, an array's, or one per line. Raises InputError `import_not_json`."""
    try:
        found = decode_document(body, name)
    except InputError:
        lines = [line for line in body.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        return [decode_document(line, name) for line in lines]
    return found if isinstance(found, list) else [found]


def _store_bytes(block: Any, files: dict[str, Bytes]) -> None:
    """Store the bytes inside a block of the existing system as a file, and refer to them by name."""
    if not isinstance(block, dict) or not isinstance(block.get("base64"), str):
        return
    try:
        data = b64decode(block["base64"], validate=True)
    except (binascii.Error, ValueError):
        return
    sha256 = hashlib.sha256(data).hexdigest()
    files[sha256] = lambda: data
    block["base64"] = None
    block["body"] = {"key": "", "sha256": sha256, "size_bytes": len(data), "mime": block.get("mime") or ""}
