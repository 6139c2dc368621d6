"""The files of a conversation that its user may download: attachments, and the files that the agent offers.

A file is the user's if its newest version is external. An internal file is not found, for every user. A file that the
model no longer sees is still found by its path.
Source: docs/concepts/http-api.md#files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, Protocol

from stepline.errors import NotFoundError
from stepline.model.base import Value
from stepline.model.block import Block, Body
from stepline.model.file.served_form import Disposition, ServedForm, serve_as
from stepline.model.ids import Lane
from stepline.model.path import AttachmentPath, FilePath, from_physical
from stepline.timeline.workspace import fold_files, stored_file

LINK_S: Final = 300
"""How long a URL for a client is valid; never longer than the credentials of a function."""
_CLASSES: Final = ("att", "out")


class HostedFile(Value):
    """The newest version of a file. `versions` are those of its path, each by the same turn."""

    path: FilePath | AttachmentPath
    body: Body
    at: str
    call_id: str = ""
    versions: int = 1

    @property
    def filename(self) -> str:
        """The file name: the last part of its path."""
        return str(self.path).rpartition("/")[2]

    @property
    def origin(self) -> Literal["user", "agent"]:
        """The origin of the file: the user or the agent."""
        return "user" if isinstance(self.path, AttachmentPath) else "agent"

    def form(self, wanted: Disposition) -> ServedForm:
        """Return the form in which it is served."""
        return serve_as(self.body.mime, self.filename, wanted)


class PathResolver(Protocol):
    """Blocks of a conversation by path. `stepline.timeline.fold.Timeline` is one."""

    def resolve(self, path: str) -> tuple[Block, ...]:
        """Return the newest blocks at a logical path; none if there are none."""


def hosted_files(lane: Lane, blocks: Iterable[Block]) -> list[HostedFile]:
    """Return the files that one turn's blocks offer to the user, the last written one at the end."""
    written: dict[str, Block] = {}
    versions: Counter[str] = Counter()
    kept = tuple(blocks)
    for block in kept:
        if file := stored_file(block):
            written[file.path] = block
            versions[file.path] += 1
    found = (_hosted(lane, written[where], versions[where]) for where in fold_files(kept))
    return [file for file in found if file]


def find_hosted(lane: Lane, timeline: PathResolver, path: FilePath | AttachmentPath) -> HostedFile:
    """Return the file at a path of the conversation. Raises NotFoundError."""
    for block in reversed(timeline.resolve(str(path))):
        if stored_file(block):
            if file := _hosted(lane, block, 1):
                return file
            break
    raise NotFoundError("no such file")


def _hosted(lane: Lane, block: Block, versions: int) -> HostedFile | None:
    """Return a block's file if it belongs to the user; an object of another project belongs to no user here."""
    file = stored_file(block)
    if file is None or block.body is None or block.meta.get("visibility") != "external":
        return None
    word, *scope = file.key.split("/")[:3]
    if word not in _CLASSES or scope != [lane.tenant, lane.project]:
        return None
    path = from_physical(file.path)
    return HostedFile(path=path, body=block.body, at=block.ts, call_id=block.call_id, versions=versions)
