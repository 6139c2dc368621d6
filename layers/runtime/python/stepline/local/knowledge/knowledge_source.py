"""The files of a knowledge space: of a folder in its current state, or of a commit in a git repository.

Links are not followed; hidden files and folders, keys and generated files are left out. Source: dulwich.io, "Object
store" and "Git server and client"; no git program and no shell is run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeAlias

from stepline.errors import DependencyError, InputError, PathError
from stepline.local.knowledge.knowledge_config import KnowledgeConfig
from stepline.local.safe_text import without_credentials
from stepline.model.path import KnowledgePath, parse_path

if TYPE_CHECKING:
    from dulwich.objects import Commit, ObjectID
    from dulwich.refs import Ref
    from dulwich.repo import BaseRepo, Repo

FILES_MAX: Final = 20_000
FILE_MAX_BYTES: Final = 1 << 20
KNOWLEDGE_BYTES_MAX: Final = 64 << 20

_URL: Final = re.compile(r"(?:https?|git)://")
_REMOTE: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}:/|[^/\s@]{1,200}@[^/\s@:]{1,200}:", re.IGNORECASE)
"""An address of any kind, so that none is mistaken for a folder."""
_LEFT_OUT: Final = re.compile(
    r"^\.|^__pycache__$|^node_modules$|\.(?:pyc|lock|svg|pem|key|p12|pfx|jks|keystore|kdbx|env)$",
    re.IGNORECASE,
)


Reader: TypeAlias = Callable[[], bytes]
IndexProgress: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class SourceFiles:
    """Files by their paths in the source, each with its reader; `has` also knows folders."""

    files: Mapping[str, Reader]
    has: Callable[[str], bool]


@contextmanager
def reading(place: str | Path) -> Iterator[None]:
    """Convert the OSError of a body that only reads to InputError `knowledge_unreadable`."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{place} cannot be read: {error.strerror or error}", code="knowledge_unreadable"
        ) from error


@contextmanager
def open_source(folder: Path, config: KnowledgeConfig, progress: IndexProgress) -> Iterator[SourceFiles]:
    """Yield the files of the source that a configuration in `folder` names.

    Raises:
        InputError: `repo_not_found`, `ref_not_found`, or `knowledge_unreadable`.
        DependencyError: `repo_unreachable`.
    """
    if _URL.match(config.repo):
        progress(f"fetching {without_credentials(config.repo)}")
        with TemporaryDirectory(prefix="stepline-knowledge-") as clone, _make(clone) as repo:
            yield _tree(repo, _fetch(config.repo, config.ref, repo))
        return
    if _REMOTE.match(config.repo):
        raise InputError(
            f"{without_credentials(config.repo)}: a repository's address begins with https:// or git://",
            code="repo_not_found",
        )
    base = (folder / config.repo).resolve()
    if not base.is_dir():
        raise InputError(f"there is no folder {base}", code="repo_not_found")
    if not config.ref:
        yield SourceFiles(files=_walk(base), has=lambda path: _exists(base / path))
        return
    with reading(base):
        repo = _open(base)
    with repo:
        with reading(base):
            within = base.relative_to(Path(repo.path).resolve()).as_posix()
            tree = _tree(repo, _commit(repo, config.ref), within)
        yield tree


def choose_files(source: SourceFiles, config: KnowledgeConfig) -> dict[str, tuple[str, Reader]]:
    """Return the files of the roots by their paths (`ks:…`), each with its kind and its reader.

    The path of a file is its kind and its path below the root; a root that is a file has its own name.

    Raises InputError `knowledge_root_missing`, `knowledge_path_taken`, or `knowledge_too_large`.
    """
    chosen: dict[str, tuple[str, Reader]] = {}
    for kind, root in config.roots:
        found = {path: rel for path in source.files if (rel := _below(path, root)) is not None}
        if not found:
            raise InputError(f"{root}, the root of {kind}, has no files", code="knowledge_root_missing")
        for path, rel in found.items():
            name = _logical(f"{kind}/{rel}" if rel else PurePosixPath(path).name)
            if name in chosen:
                raise InputError(f"{name} is in two roots of {kind}", code="knowledge_path_taken")
            if name:
                chosen[name] = (kind, source.files[path])
    if len(chosen) > FILES_MAX:
        raise InputError(f"{len(chosen)} files; an index has at most {FILES_MAX}", code="knowledge_too_large")
    return chosen


def _below(path: str, root: str) -> str | None:
    """Return a path relative to the root, "" for the root itself; None if it is elsewhere."""
    if root == ".":
        return path
    if path == root:
        return ""
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def _logical(rel: str) -> str:
    """Return the path of a document; "" for a name that no path can contain."""
    try:
        return str(parse_path(str(KnowledgePath(rel=rel))))
    except PathError:
        return ""


def _walk(base: Path) -> dict[str, Reader]:
    files: dict[str, Reader] = {}
    for top, folders, names in os.walk(base, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not _LEFT_OUT.search(name))
        for path in (Path(top, name) for name in sorted(names) if not _LEFT_OUT.search(name)):
            if path.is_file() and not path.is_symlink():
                files[path.relative_to(base).as_posix()] = path.read_bytes
    return files


def _unreadable(error: OSError) -> None:
    """Refuse a folder that cannot be listed, which a walk would silently skip."""
    with reading(error.filename):
        raise error


def _exists(path: Path) -> bool:
    """Return True if a file or a folder exists at a path; some paths are invalid for the file system."""
    try:
        return path.exists()
    except OSError:
        return False


def _tree(repo: BaseRepo, commit: Commit, within: str = ".") -> SourceFiles:
    """Return the regular files of a commit in a folder of the repository, by their paths relative to it."""
    from dulwich.object_store import iter_tree_contents

    entries = [
        (rel, entry.sha)
        for entry in iter_tree_contents(repo.object_store, commit.tree)
        if entry.path and entry.sha and entry.mode and stat.S_ISREG(entry.mode)
        if (rel := _below(entry.path.decode("utf-8", "replace"), within))
    ]
    known = {path for path, _ in entries}
    known |= {str(folder) for path in known for folder in PurePosixPath(path).parents}
    files = {
        path: lambda sha=sha: repo.object_store[sha].as_raw_string()
        for path, sha in sorted(entries)
        if not any(_LEFT_OUT.search(name) for name in path.split("/"))
    }
    return SourceFiles(files=files, has=lambda path: path.rstrip("/") in known)


def _open(base: Path) -> Repo:
    from dulwich.errors import NotGitRepository
    from dulwich.repo import Repo

    try:
        return Repo.discover(str(base))
    except NotGitRepository as error:
        raise InputError(
            f"{base} is no git repository, which `ref` asks for", code="repo_not_found"
        ) from error


def _commit(repo: BaseRepo, ref: str) -> Commit:
    from dulwich.objectspec import parse_commit

    try:
        return parse_commit(repo, ref)
    except (KeyError, ValueError) as error:
        raise InputError(f"the repository has no {ref!r:.80}", code="ref_not_found") from error


def _make(folder: str) -> Repo:
    from dulwich.repo import Repo

    return Repo.init_bare(folder)


def _fetch(url: str, ref: str, repo: Repo) -> Commit:
    """Fetch one commit of a repository into `repo`, without its history."""
    import urllib3
    from dulwich.client import get_transport_and_path
    from dulwich.errors import GitProtocolError, HangupException, NotGitRepository

    picked: list[ObjectID] = []
    shown = without_credentials(url)

    def want(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:  # noqa: ARG001 - requested by name
        names = (ref, f"refs/heads/{ref}", f"refs/tags/{ref}") if ref else ("HEAD",)
        by_name = {name.decode("utf-8", "replace"): sha for name, sha in refs.items()}
        picked[:] = [by_name[name] for name in names if name in by_name][:1]
        if not picked:
            raise InputError(f"{shown} has no branch and no tag {ref!r:.80}", code="ref_not_found")
        return picked

    try:
        client, path = get_transport_and_path(url, quiet=True)
        client.fetch(path, repo, determine_wants=want, depth=1)
    except (
        GitProtocolError,
        HangupException,
        NotGitRepository,
        OSError,
        urllib3.exceptions.HTTPError,
    ) as error:
        why = without_credentials(str(error))
        raise DependencyError(f"{shown} cannot be fetched: {why}", code="repo_unreachable") from error
    return _commit(repo, picked[0].decode())
