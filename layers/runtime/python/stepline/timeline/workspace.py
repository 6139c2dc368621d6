"""The workspace: the files under the artifact root when a program of a turn starts.

They are the turn's own files after its calls, and the files of earlier turns that it pulled. A pull
records paths, never bytes: a closed turn does not change, so the same rule finds its files again.
Paths are physical, below the artifact root.
Source: docs/concepts/timeline.md#workspace.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import Final, NamedTuple, Protocol, TypeVar

from stepline.model.base import Value
from stepline.model.block import Block
from stepline.model.entry import Resulted
from stepline.model.path import parse_path, physical
from stepline.model.program.execution import WorkFile

PULL: Final = "react.pull"
PULLED: Final = "pulled"
"""Meta of a pull's status: the pulled files and folders; a folder ends with a slash."""

CHECKOUT: Final = "react.checkout"
CHECKOUT_RECORD: Final = "react.workspace.checkout"
"""Type of the block that records a checkout: JSON with `mode` and the paths `checked_out_from`."""

DELETED_PATHS: Final = "deleted"
"""Meta of a run's status: files of its turn that the program removed."""

T = TypeVar("T")


class Checkout(NamedTuple):
    """The newest checkout of a turn: `refs` are the logical paths that `files/` came from, a folder ends with a slash."""

    mode: str
    refs: tuple[str, ...]


class SavedFile(Value):
    """A file of a project's git history: its blob, its stored bytes, and the last turn whose `files/` had it."""

    path: str
    blob: str
    key: str
    sha256: str
    size_bytes: int
    turn: str


class TurnBlocks(Protocol):
    """Blocks of a conversation by turn. `stepline.timeline.fold.Timeline` is one."""

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for an unknown turn."""


def fold_workspace(timeline: TurnBlocks, turn: str) -> tuple[WorkFile, ...]:
    """Return the files in the workspace of this turn's programs, ordered by path."""
    blocks = timeline.turn_blocks(turn)
    files = fold_files(blocks)
    for ref in pulled_refs(blocks):
        of = ref.partition("/")[0]
        if of != turn:
            files |= pick_files(fold_files(timeline.turn_blocks(of)), ref)
    return tuple(files[path] for path in sorted(files))


def fold_files(blocks: Iterable[Block]) -> dict[str, WorkFile]:
    """Return the files that one turn's blocks leave, by path, the last written one at the end.

    A path is a file or a folder, never both: the later write wins. Only stored bytes make a file; a text at
    the same path is a view of it.
    """
    files: dict[str, WorkFile] = {}
    folders: set[str] = set()
    for block in blocks:
        for path in _deleted(block):
            files.pop(path, None)
        file = stored_file(block)
        if file is None:
            continue
        above = folders_above(file.path)
        if file.path in folders:
            below = f"{file.path}/"
            files = {path: other for path, other in files.items() if not path.startswith(below)}
        for path in (*above, file.path):
            files.pop(path, None)
        folders |= above
        files[file.path] = file
    return files


def pick_files(files: dict[str, WorkFile], ref: str) -> dict[str, WorkFile]:
    """Return the file at a path, or all files below it if it ends with a slash."""
    if ref.endswith("/"):
        return {path: file for path, file in files.items() if path.startswith(ref)}
    return {ref: files[ref]} if ref in files else {}


def project_files(blocks: Iterable[Block], turn: str) -> dict[str, WorkFile]:
    """Return the files that a turn leaves in its `files/`, by their path there."""
    root = f"{turn}/files/"
    files = fold_files(blocks).items()
    return {path.removeprefix(root): file for path, file in files if path.startswith(root)}


def deleted_files(blocks: Iterable[Block], turn: str) -> frozenset[str]:
    """Return the files that programs of a turn deleted from its `files/`, by their path there.

    A file that a checkout removed from `files/` is set aside, not deleted.
    """
    root = f"{turn}/files/"
    gone = (path for block in blocks if block.tool_id != CHECKOUT for path in _deleted(block))
    return frozenset(path.removeprefix(root) for path in gone if path.startswith(root))


def carry_on(before: Mapping[str, T], files: Mapping[str, T], deleted: Collection[str]) -> dict[str, T]:
    """Return the project after a turn: the previous one, without the deleted files, with the turn's own `files`.

    A path is a file or a folder, never both: the turn's own file wins.
    """
    folders = {folder for path in files for folder in folders_above(path)}
    kept = {
        path: file
        for path, file in before.items()
        if not (path in deleted or path in folders or files.keys() & folders_above(path))
    }
    return {**kept, **files}


def touches_workspace(entry: Resulted, turn: str) -> bool:
    """Return True if a result of this turn may change its `files/`, or adds files of other turns."""
    files = f"fi:{turn}.files/"
    return any(
        not block.meta.keys().isdisjoint((PULLED, DELETED_PATHS))
        or (block.body is not None and block.path.startswith(files))
        for block in entry.blocks
    )


def last_checkout(blocks: Iterable[Block]) -> Checkout:
    """Return the newest checkout of a turn, or an empty one; its record names the earlier ones still in effect."""
    made = [block.text for block in blocks if block.type == CHECKOUT_RECORD and block.tool_id == CHECKOUT]
    if not made:
        return Checkout("", ())
    facts = json.loads(made[-1])
    return Checkout(str(facts["mode"]), tuple(facts["checked_out_from"]))


def stored_file(block: Block) -> WorkFile | None:
    """Return the file that a block stores at its own path in its own turn; None for a view, a text or another block."""
    body = block.body
    if body is None or not block.path.startswith("fi:"):
        return None
    if block.meta.get("source_path", block.path) != block.path:
        return None
    path = parse_path(block.path)
    where = physical(path)
    if where is None or not where.startswith(f"{block.turn_id}/"):
        return None
    return WorkFile(path=where, key=body.key, sha256=body.sha256, size_bytes=body.size_bytes, mime=body.mime)


def folders_above(path: str) -> set[str]:
    """Return the folders of a file: `a`, `a/b` for `a/b/c`."""
    return set(accumulate(path.split("/")[:-1], lambda folder, name: f"{folder}/{name}"))


def _deleted(block: Block) -> tuple[str, ...]:
    return tuple(block.meta.get(DELETED_PATHS, ())) if _is_status(block) else ()


def pulled_refs(blocks: Iterable[Block]) -> list[str]:
    """Return the files and folders that one turn pulled, in the order of the log."""
    statuses = (block for block in blocks if block.tool_id == PULL and _is_status(block))
    return [ref for block in statuses for ref in block.meta.get(PULLED, ())]


def _is_status(block: Block) -> bool:
    return block.path == f"tc:{block.turn_id}.{block.call_id}.result"
