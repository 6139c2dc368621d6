"""Build the index of a knowledge space, once per content.

The index is an immutable object, `.knowledge/<signature>.sqlite`. The signature covers the configuration and every
file, so an equal index is not built again. `.knowledge/current` names it and is replaced atomically: a reader gets the
previous index or the new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from stepline.bundle.knowledge_index import COLUMN_WEIGHTS, EXCERPT_CHARS, FOLDER, POINTER, SCHEMA
from stepline.errors import DependencyError, InputError
from stepline.local.counted import counted
from stepline.local.knowledge.knowledge_config import KINDS, KNOWLEDGE_FILE, KnowledgeConfig, read_config
from stepline.local.knowledge.knowledge_source import (
    FILE_MAX_BYTES,
    KNOWLEDGE_BYTES_MAX,
    IndexProgress,
    SourceFiles,
    choose_files,
    open_source,
    reading,
)
from stepline.local.knowledge.scan_document import KnowledgeDocument, scan_document
from stepline.model.base import Value
from stepline.model.visible_text import shorten_line

FOLDERS: Final = (*KINDS, "deployment", "ui")
"""First path segments that mark a reference, besides the roots."""

_QUOTED: Final = re.compile(r"`([^`\s]{1,300})`")
_PLACEHOLDER: Final = re.compile(r"[<>*{}…$?]|\.\.\.")
_LINE: Final = re.compile(r":\d+(?:-\d+)?$")


class _BrokenReference(NamedTuple):
    """A reference whose target does not exist, and its document."""

    path: str
    reference: str


def _check_references(
    documents: Iterable[KnowledgeDocument],
    config: KnowledgeConfig,
    known: Collection[str],
    has: Callable[[str], bool],
) -> tuple[int, list[_BrokenReference]]:
    """Return the number of references in Markdown, and the broken ones.

    A reference is the path of a file or folder in the source, or of a document (`known`) without its `ks:`.
    """
    folders = {f"{name}/" for name in FOLDERS} | {f"{root}/" for _, root in config.roots if root != "."}
    first = tuple(sorted(folders))
    total = 0
    missing: list[_BrokenReference] = []
    for document in documents:
        if not document.is_markdown:
            continue
        for reference in dict.fromkeys(_QUOTED.findall(document.text)):
            path = strip_reference(reference)
            if not path.startswith(first) or _PLACEHOLDER.search(path):
                continue
            total += 1
            if not (f"ks:{path}" in known or has(path) or _is_folder(path, known)):
                missing.append(_BrokenReference(document.path, reference))
    return total, missing


def strip_reference(reference: str) -> str:
    """Return the path in a reference, without its position in the file: `#L10`, `::test`, `:123`."""
    path = reference.removeprefix("ks:").partition("#")[0].partition("::")[0]
    return _LINE.sub("", path).rstrip("/.,;:")


def _is_folder(path: str, known: Collection[str]) -> bool:
    return any(one.startswith(f"ks:{path}/") for one in known)


VERSION: Final = 1
"""The version of the index's format; another version gives another signature."""

MISSING_SHOWN: Final = 20
PROGRESS_EVERY: Final = 500


class Built(Value, omit_defaults=False):
    """An index: its file, the documents and sections in it, the files left out, and the references of documents.

    `fresh` is false if an equal index existed. `missing` are the first broken references.
    """

    path: str
    signature: str
    fresh: bool
    documents: int
    sections: int
    left_out: int
    references: int
    missing_references: int
    missing: tuple[tuple[str, str], ...] = ()


def build_index(folder: Path, progress: IndexProgress) -> Built:
    """Build the index of the knowledge space of `folder`, unless an equal one exists.

    Raises:
        InputError: `knowledge_config_invalid`, and the errors of the source and of its roots; `knowledge_unreadable`;
            `not_writable`.
        DependencyError: `repo_unreachable`, or `fts_missing`, this Python's SQLite cannot search.
    """
    with reading(folder / KNOWLEDGE_FILE):
        config = read_config(folder)
    home = folder / FOLDER
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home, progress), open_source(folder, config, progress) as source:
            return _build(home, config, source, progress)
    except OSError as error:
        raise InputError(f"{home} cannot be written: {error}", code="not_writable") from error


def build_bundle(module: str, project: Path, progress: IndexProgress) -> None:
    """Build every index of the bundle `module`, a package of the folder `project`. Raises as `build_index` does."""
    package = project.joinpath(*module.split("."))
    for config in sorted(package.rglob(KNOWLEDGE_FILE)):
        progress(f"building the index of {config.parent.relative_to(project)}")
        build_index(config.parent, progress)


def _build(home: Path, config: KnowledgeConfig, source: SourceFiles, progress: IndexProgress) -> Built:
    chosen = choose_files(source, config)
    progress(f"reading {counted(len(chosen), 'file')}")
    contents = _read({path: read for path, (_, read) in chosen.items()})
    signature = _sign(config, contents)
    file = home / f"{signature}.sqlite"
    if _is_current(home, file):
        progress("nothing has changed")
        return _facts(file, fresh=False)
    scanned = _scan({path: kind for path, (kind, _) in chosen.items()}, contents, progress)
    total, missing = (
        _check_references(scanned, config, contents.keys(), source.has) if config.validate_refs else (0, [])
    )
    facts = {
        "documents": len(scanned),
        "sections": sum(len(document.sections) for document in scanned),
        "left_out": len(chosen) - len(scanned),
        "references": total,
        "missing_references": len(missing),
        "missing": missing[:MISSING_SHOWN],
    }
    _write(file, scanned, facts)
    _set_current(home, file)
    return _facts(file, fresh=True)


@contextmanager
def _locked(home: Path, progress: IndexProgress) -> Iterator[None]:
    """Run one build at a time; another one waits, and reports the process that it waits for."""
    with (home / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            progress(f"waiting for another build (process {lock.read().strip() or 'unknown'})")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)  # the folder is copied with the bundle: same content, same folder


def _read(readers: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the bytes of files by path, none for too large files. Raises InputError `knowledge_too_large`."""
    contents: dict[str, bytes] = {}
    left = KNOWLEDGE_BYTES_MAX
    for path in sorted(readers):
        with reading(path):
            data = readers[path]()
        contents[path] = data if len(data) <= FILE_MAX_BYTES else b""
        left -= len(contents[path])
        if left < 0:
            raise InputError(
                f"more than {KNOWLEDGE_BYTES_MAX >> 20} MiB of documents", code="knowledge_too_large"
            )
    return contents


def _sign(config: KnowledgeConfig, contents: Mapping[str, bytes]) -> str:
    """Return the signature of an index: of its format, its configuration, and every file."""
    digest = hashlib.sha256(f"{VERSION}|".encode() + msgspec.json.encode(config))
    for path, data in contents.items():
        digest.update(f"\n{path} {hashlib.sha256(data).hexdigest()}".encode())
    return digest.hexdigest()[:16]


def _scan(
    kinds: Mapping[str, str], contents: Mapping[str, bytes], progress: IndexProgress
) -> list[KnowledgeDocument]:
    """Return the text files as documents."""
    scanned = []
    for n, (path, data) in enumerate(contents.items(), 1):
        document = scan_document(path, kinds[path], data) if data.strip() else None
        scanned += [document] if document else []
        if n % PROGRESS_EVERY == 0:
            progress(f"{n} of {len(contents)} files")
    return scanned


def _write(file: Path, documents: Sequence[KnowledgeDocument], facts: Mapping[str, Any]) -> None:
    """Write an index to a temporary file and move it into place."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with closing(sqlite3.connect(fresh)) as index:
        index.execute("PRAGMA journal_mode = OFF")
        try:
            index.executescript(SCHEMA)
        except sqlite3.OperationalError as error:
            raise DependencyError(f"this Python's SQLite has no FTS5: {error}", code="fts_missing") from error
        for document in documents:
            _add(index, document)
        index.executemany(
            "INSERT INTO fact VALUES (?, ?)", [(name, json.dumps(value)) for name, value in facts.items()]
        )
        index.execute("INSERT INTO words (words) VALUES ('optimize')")
        index.commit()
        index.execute("VACUUM")
    fresh.replace(file)


def _add(index: sqlite3.Connection, document: KnowledgeDocument) -> None:
    lists = [
        json.dumps(words, ensure_ascii=False)
        for words in (document.tags, document.keywords, document.see_also)
    ]
    about = (
        document.path,
        document.title,
        document.summary,
        document.kind,
        document.mime,
        *lists,
        document.text,
    )
    row = index.execute(f"INSERT INTO document VALUES (NULL{', ?' * len(about)})", about).lastrowid  # noqa: S608 - placeholders
    for section in document.sections:
        body = document.text[section.start : section.end]
        place = (row, section.heading, section.line, section.start, section.end - section.start)
        at = index.execute("INSERT INTO section VALUES (NULL, ?, ?, ?, ?, ?)", place).lastrowid
        words = {
            "path": document.path.removeprefix("ks:"),
            "title": document.title,
            "summary": document.summary,
            "headings": section.heading,
            "excerpt": shorten_line(body[: EXCERPT_CHARS * 4], EXCERPT_CHARS),
            "body": body,
            "tags": " ".join(document.tags),
            "keywords": " ".join(document.keywords),
            "see_also": " ".join(document.see_also),
        }
        marks = ", ?" * len(COLUMN_WEIGHTS)
        index.execute(
            f"INSERT INTO words (rowid, {', '.join(COLUMN_WEIGHTS)}) VALUES (?{marks})",  # noqa: S608 - the names of our columns
            (at, *(words[name] for name in COLUMN_WEIGHTS)),
        )


def _set_current(home: Path, file: Path) -> None:
    """Point `current` at an index, and delete the others."""
    pointer = home / POINTER
    fresh = pointer.with_name(f"{POINTER}.new")
    fresh.write_text(f"{file.name}\n", encoding="ascii")
    fresh.replace(pointer)
    for other in home.glob("*.sqlite*"):
        if other != file:
            other.unlink()


def _is_current(home: Path, file: Path) -> bool:
    pointer = home / POINTER
    return file.is_file() and pointer.is_file() and pointer.read_text(encoding="ascii").strip() == file.name


def _facts(file: Path, *, fresh: bool) -> Built:
    with closing(sqlite3.connect(file)) as index:
        facts = {name: json.loads(value) for name, value in index.execute("SELECT name, value FROM fact")}
    return msgspec.convert({**facts, "path": str(file), "signature": file.stem, "fresh": fresh}, Built)
