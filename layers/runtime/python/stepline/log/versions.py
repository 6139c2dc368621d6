"""Versions: the project after each turn, as commits of the conversation's own git history.

    git/<lane>/versions/<turn>     the commit that the turn left; put once
    git/<lane>/commits/<id>        a commit: its parent, and its files, each with its blob and where its bytes are

A commit is a function of the log: tree, parent, time and names all come from there, so every process that saves a turn
makes the commit with the same id. It is put before the version that names it. The bytes of a file, text or not, are
stored already, by the call that wrote it, and are not stored twice; git's own objects are made from them when a
repository is requested. No filter, hook or other program runs: a blob has the exact bytes of its file.
Source: docs/concepts/timeline.md#versions.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from stepline.errors import DependencyError, NotFoundError
from stepline.log.spill import fetch_body, stream_body
from stepline.model.base import Value
from stepline.model.entry import Closed
from stepline.model.ids import Lane
from stepline.model.program.execution import WorkFile
from stepline.ports.artifacts import Artifacts
from stepline.rendering.turn_facts import Turn
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import SavedFile, carry_on, deleted_files, project_files

if TYPE_CHECKING:
    from dulwich.objects import Blob, ShaFile
    from dulwich.objects import Commit as GitCommit

FILE_MAX_BYTES: Final = 100 * 1024 * 1024
"""Larger files are left out of the history: by default no file of a program is larger."""

LOOK_BACK: Final = 6
"""The number of newest turns that are searched for the newest version."""

READS_MAX: Final = 1_000
"""The most files of one turn that are read for the first time; further ones are left out of the history."""

READ_MAX_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of one turn's files that are read for the first time: the end of the turn has a minute and a half."""

SKIPPED_FOLDERS: Final = frozenset(
    {".git", "__pycache__", ".pytest_cache", "node_modules", ".venv", "logs", "executed_programs"}
)
AUTHOR: Final = b"Stepline <agent@stepline.invalid>"
"""The author of every commit; RFC 2606 reserves the domain."""

FILE_MODE: Final = 0o100644
MIME: Final = "application/json"

Skipped: TypeAlias = Literal["", "workspace_not_materialized", "empty_workspace", "workspace_unchanged"]
LeftOut: TypeAlias = Literal["folder", "name", "not_text", "too_large", "too_many"]
"""`not_text`: release 0.1.0 left out what was not a text."""


class Commit(Value):
    """A commit of the history; `left_out` counts the files of its turn that it lacks, by reason."""

    id: str = ""
    tree: str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    parent: str = ""
    turn: str = ""
    at: str = ""
    files: tuple[SavedFile, ...] = ()
    left_out: dict[LeftOut, int] = msgspec.field(default_factory=dict)


class Version(Value):
    """The commit of a turn: its own, or with a reason the previous one, which is empty in a new history."""

    turn: str
    commit: str
    skipped: Skipped = ""


NO_COMMIT: Final = Commit()
"""The state before the first commit: the empty tree."""


def version_key(lane: Lane, turn: str) -> str:
    """Return the key of a turn's version."""
    return f"git/{lane.prefix()}/versions/{turn}"


def commit_key(lane: Lane, commit: str) -> str:
    """Return the key of a commit."""
    return f"git/{lane.prefix()}/commits/{commit}"


def saved_turns(timeline: Timeline) -> list[str]:
    """Return the turns that have or will have a version: those that completed, oldest first."""
    return [turn.id for turn in _completed(timeline)]


def read_version(artifacts: Artifacts, lane: Lane, turn: str) -> Version | None:
    """Return the version of a turn; None if it has none yet. Raises DependencyError."""
    try:
        return _stored_version(artifacts, lane, turn)
    except NotFoundError:
        return None


def _stored_version(artifacts: Artifacts, lane: Lane, turn: str) -> Version:
    return msgspec.json.decode(artifacts.get(version_key(lane, turn)), type=Version)


def read_commit(artifacts: Artifacts, lane: Lane, commit: str) -> Commit:
    """Return a commit by its id; "" is the state before the first one. Raises DependencyError."""
    if not commit:
        return NO_COMMIT
    key = commit_key(lane, commit)
    try:
        return msgspec.json.decode(artifacts.get(key), type=Commit)
    except NotFoundError as error:
        raise DependencyError("a stored commit is missing", code="commit_missing", key=key) from error


@lru_cache(maxsize=32)
def _kept_version(artifacts: Artifacts, lane: Lane, turn: str) -> Version:
    return _stored_version(artifacts, lane, turn)


@lru_cache(maxsize=4)
def _kept_commit(artifacts: Artifacts, lane: Lane, commit: str) -> Commit:
    return read_commit(artifacts, lane, commit)


class Newest(NamedTuple):
    """The newest version of a project, and its commit; `missing` is the newest turn that has none yet, or ""."""

    version: Version | None
    commit: Commit
    missing: str


def newest_version(artifacts: Artifacts, timeline: Timeline) -> Newest:
    """Return the newest version among those of the newest turns. Versions that were read are cached in this process.

    Raises DependencyError.
    """
    turns = _completed(timeline)[-LOOK_BACK:]
    store: Any = artifacts  # every adapter is hashable, which the port does not say
    for turn in reversed(turns):
        lane = _home(timeline, turn)
        try:
            found = _kept_version(store, lane, turn.id)
        except NotFoundError:
            continue
        commit = _kept_commit(store, lane, found.commit)
        return Newest(found, commit, "" if turn == turns[-1] else turns[-1].id)
    return Newest(None, NO_COMMIT, turns[-1].id if turns else "")


def save_versions(artifacts: Artifacts, timeline: Timeline) -> Version | None:
    """Save every completed turn that has no version yet, oldest first; return the newest version.

    Raises DependencyError; versions saved before the error stay.
    """
    missing: list[Turn] = []
    before: Version | None = None
    parent_lane = timeline.lane
    for turn in reversed(_completed(timeline)):
        parent_lane = _home(timeline, turn)
        before = read_version(artifacts, parent_lane, turn.id)
        if before is not None:
            break
        missing.append(turn)
    for turn in reversed(missing):
        parent = read_commit(artifacts, parent_lane, before.commit if before else "")
        lane = _home(timeline, turn)
        if parent.id and lane != parent_lane:  # the first turn of a fork
            artifacts.put(commit_key(lane, parent.id), msgspec.json.encode(parent), mime=MIME)
        before, parent_lane = _save(artifacts, timeline, turn, parent), lane
    return before


def _completed(timeline: Timeline) -> list[Turn]:
    return [turn for turn in timeline.history if turn.outcome == "completed"]


def _home(timeline: Timeline, turn: Turn) -> Lane:
    """Return the lane whose history has a turn's version; the one of a fork continues that of its origin."""
    lane = timeline.lane
    return msgspec.structs.replace(lane, conversation=turn.home) if turn.home else lane


def _save(artifacts: Artifacts, timeline: Timeline, turn: Turn, parent: Commit) -> Version:
    """Put a turn's own commit, if any, and then its version."""
    lane = _home(timeline, turn)
    blocks = timeline.turn_blocks(turn.id)
    files, deleted = project_files(blocks, turn.id), deleted_files(blocks, turn.id)
    if files or deleted:
        made = _next_commit(artifacts, parent, files, deleted, turn=turn.id, at=_closed_at(timeline, turn))
        if made.tree != parent.tree:
            artifacts.put(commit_key(lane, made.id), msgspec.json.encode(made), mime=MIME)
            version = Version(turn=turn.id, commit=made.id)
        else:
            skipped: Skipped = "workspace_unchanged" if parent.id else "empty_workspace"
            version = Version(turn=turn.id, commit=parent.id, skipped=skipped)
    else:
        version = Version(turn=turn.id, commit=parent.id, skipped="workspace_not_materialized")
    if artifacts.put(version_key(lane, turn.id), msgspec.json.encode(version), mime=MIME):
        return version
    # Another process was first, perhaps of a release with other limits: its version is kept.
    return _stored_version(artifacts, lane, turn.id)


def _closed_at(timeline: Timeline, turn: Turn) -> str:
    closing = timeline.since(turn.closed - 1, turn.closed)
    return next(entry.at for batch in closing for entry in batch.entries if isinstance(entry, Closed))


def _next_commit(
    artifacts: Artifacts,
    parent: Commit,
    files: Mapping[str, WorkFile],
    deleted: frozenset[str],
    *,
    turn: str,
    at: str,
) -> Commit:
    """Return the commit after `parent` for a turn's `files` and the files that it `deleted`; nothing is stored."""
    known = {file.path: file for file in parent.files}
    kept, left_out = _kept_files(artifacts, files, known, turn)
    # A file that the history leaves out is removed from it: its earlier bytes are no longer its content.
    after = carry_on(known, kept, deleted | left_out.keys())
    ordered = tuple(after[path] for path in sorted(after))
    made = Commit(
        parent=parent.id, turn=turn, at=at, files=ordered, left_out=dict(Counter(left_out.values()))
    )
    _, commit = git_objects(made)
    return msgspec.structs.replace(made, id=commit.id.decode(), tree=commit.tree.decode())


def _kept_files(
    artifacts: Artifacts, files: Mapping[str, WorkFile], known: Mapping[str, SavedFile], turn: str
) -> tuple[dict[str, SavedFile], dict[str, LeftOut]]:
    """Return a turn's files for the history, and the reasons for leaving others out, both by path.

    Only bytes that the parent does not have are read.
    """
    kept: dict[str, SavedFile] = {}
    left_out: dict[str, LeftOut] = {}
    reads = read_bytes = 0
    for path in sorted(files):
        file, before = files[path], known.get(path)
        if before is not None and before.sha256 == file.sha256:
            kept[path] = msgspec.structs.replace(before, turn=turn)
        elif reason := _unfit(path, file):
            left_out[path] = reason
        elif reads == READS_MAX or read_bytes + file.size_bytes > READ_MAX_BYTES:
            left_out[path] = "too_many"
        else:
            reads, read_bytes = reads + 1, read_bytes + file.size_bytes
            kept[path] = SavedFile(
                path=path,
                blob=_name_blob(artifacts, file),
                key=file.key,
                sha256=file.sha256,
                size_bytes=file.size_bytes,
                turn=turn,
            )
    return kept, left_out


def _name_blob(artifacts: Artifacts, file: WorkFile) -> str:
    """Return the id of a file's blob. It is read in pieces. Raises DependencyError `body_missing`, `body_mismatch`."""
    blob = hashlib.sha1(b"blob %d\0" % file.size_bytes, usedforsecurity=False)
    for piece in stream_body(artifacts, file.key, file.sha256):
        blob.update(piece)
    return blob.hexdigest()


def _unfit(path: str, file: WorkFile) -> LeftOut | Literal[""]:
    """Return the reason to leave a file out of the history, judged by its name and size alone; "" if neither is a reason."""
    if SKIPPED_FOLDERS.intersection(path.split("/")[:-1]):
        return "folder"
    if not all(map(is_git_name, path.encode().split(b"/"))):
        return "name"
    return "too_large" if file.size_bytes > FILE_MAX_BYTES else ""


def is_git_name(segment: bytes) -> bool:
    """Return True if git accepts this name of a file or folder on every system: no form of `.git`, no `..`."""
    from dulwich.index import (  # noqa: PLC0415 - only a deployment that keeps histories needs git
        validate_path_element_hfs,
        validate_path_element_ntfs,
    )

    return validate_path_element_ntfs(segment) and validate_path_element_hfs(segment)


def git_objects(commit: Commit) -> tuple[list[ShaFile], GitCommit]:
    """Return the git objects of a commit: its trees, and the commit itself."""
    from dulwich.index import commit_tree  # noqa: PLC0415 - only a deployment that keeps histories needs git
    from dulwich.object_store import MemoryObjectStore  # noqa: PLC0415 - as above
    from dulwich.objects import Commit as GitCommit  # noqa: PLC0415 - as above
    from dulwich.objects import ObjectID  # noqa: PLC0415 - as above

    store = MemoryObjectStore()
    blobs = ((file.path.encode(), ObjectID(file.blob.encode()), FILE_MODE) for file in commit.files)
    made = GitCommit()
    made.tree = commit_tree(store, blobs)
    made.parents = [ObjectID(commit.parent.encode())] if commit.parent else []
    made.author = made.committer = AUTHOR
    made.author_time = made.commit_time = int(datetime.fromisoformat(commit.at).timestamp())
    made.author_timezone = made.commit_timezone = 0
    made.message = f"React workspace snapshot {commit.turn}\n".encode()
    return [store[name] for name in store], made


class GitHistory(NamedTuple):
    """A history: its trees and commits, and its `files` by their blobs, each once, its newest commit with its tree, turns' commits."""

    objects: tuple[ShaFile, ...]
    files: tuple[SavedFile, ...]
    head: str
    tree: str
    versions: dict[str, str]


def read_history(artifacts: Artifacts, timeline: Timeline) -> GitHistory:
    """Return the history of a conversation, with each commit and its trees rebuilt and compared with the recorded id.

    Raises DependencyError `commit_missing`, `commit_mismatch`.
    """
    found: dict[bytes, ShaFile] = {}
    files: dict[str, SavedFile] = {}
    versions, newest = {}, NO_COMMIT
    for turn in _completed(timeline):
        version = read_version(artifacts, _home(timeline, turn), turn.id)
        if version is None or not version.commit:
            continue
        versions[turn.id] = version.commit
        if version.commit == newest.id:
            continue
        newest = commit = read_commit(artifacts, _home(timeline, turn), version.commit)
        names = {name for file in commit.files for name in file.path.encode().split(b"/")}
        if not all(map(is_git_name, names)):
            raise DependencyError("a commit names a file that git refuses", code="commit_mismatch")
        files = {file.blob: file for file in commit.files} | files
        trees, made = git_objects(commit)
        if made.id.decode() != commit.id:
            raise DependencyError(
                "a commit is not what its name says", code="commit_mismatch", commit=commit.id
            )
        found |= {one.id: one for one in (*trees, made)}
    return GitHistory(tuple(found.values()), tuple(files.values()), newest.id, newest.tree, versions)


def read_blobs(artifacts: Artifacts, history: GitHistory) -> Iterator[Blob]:
    """Yield the blobs of a history, of which one at a time needs memory.

    Raises DependencyError `commit_mismatch`, and the errors of reading a stored body.
    """
    from dulwich.objects import Blob  # noqa: PLC0415 - only a deployment that keeps histories needs git

    for file in history.files:
        blob = Blob.from_string(fetch_body(artifacts, file.key, file.sha256))
        if blob.id.decode() != file.blob:
            raise DependencyError("a blob is not what its commit says", code="commit_mismatch", key=file.key)
        yield blob
