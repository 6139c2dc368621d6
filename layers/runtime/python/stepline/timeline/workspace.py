"""The workspace: the files under the artifact root when a program of a turn starts.

They are the turn's own files, as its calls left them, and those of earlier turns that it pulled. A pull
records paths, never bytes: a turn that is over does not change, so the same rule finds its files again.
Paths are physical, below the artifact root.
Source: docs/concepts/timeline.md#workspace.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final, Protocol

from stepline.model.block import Block
from stepline.model.path import parse_path, physical
from stepline.model.program.execution import WorkFile

PULL: Final = "react.pull"
PULLED: Final = "pulled"
"""Meta of a pull's status: the pulled files and folders; a folder ends with a slash."""

DELETED: Final = "deleted"
"""Meta of a run's status: files of its turn that the program removed."""


class TurnBlocks(Protocol):
    """A conversation by turns. `stepline.timeline.fold.Timeline` is one."""

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for an unknown turn."""
        ...


def fold_workspace(timeline: TurnBlocks, turn: str) -> tuple[WorkFile, ...]:
    """Return the files in the workspace of this turn's programs, ordered by path."""
    blocks = timeline.turn_blocks(turn)
    files = fold_files(blocks)
    for ref in _pulled(blocks):
        of = ref.partition("/")[0]
        if of != turn:
            files |= pick_files(fold_files(timeline.turn_blocks(of)), ref)
    return tuple(files[path] for path in sorted(files))


def fold_files(blocks: Iterable[Block]) -> dict[str, WorkFile]:
    """Return the files that one turn's blocks leave, by path, the one written last at the end.

    A path is a file or a folder, never both: the later write wins. Only stored bytes make a file; a text at
    the same path is a view of it.
    """
    files: dict[str, WorkFile] = {}
    folders: set[str] = set()
    for block in blocks:
        for path in _deleted(block):
            files.pop(path, None)
        file = _file(block)
        if file is None:
            continue
        above = _above(file.path)
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


def _file(block: Block) -> WorkFile | None:
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


def _above(path: str) -> set[str]:
    """Return the folders that a file lies in: `a`, `a/b` for `a/b/c`."""
    return set(accumulate(path.split("/")[:-1], lambda folder, name: f"{folder}/{name}"))


def _deleted(block: Block) -> tuple[str, ...]:
    return tuple(block.meta.get(DELETED, ())) if _is_status(block) else ()


def _pulled(blocks: Iterable[Block]) -> list[str]:
    said = (block for block in blocks if block.tool_id == PULL and _is_status(block))
    return [ref for block in said for ref in block.meta.get(PULLED, ())]


def _is_status(block: Block) -> bool:
    return block.path == f"tc:{block.turn_id}.{block.call_id}.result"
