"""The files of an export: its documents, and the files that they name."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from stepline.errors import DependencyError
from stepline.local.named_files import FileNames, Read
from stepline.log.spill import LOST_BODY_CODES, fetch_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepline.model.ids import Lane
    from stepline.ports.artifacts import Artifacts
    from stepline.timeline.export import Export

FILES: Final = "files"
"""The folder of the files."""


def name_document(document: Export) -> str:
    """Return the name of a document's file."""
    name = document.kind.removeprefix("artifact:").replace(":", ".")
    turn = document.payload.get("turn_id", "")
    return f"{name}/{turn}.json" if turn else f"{name}.json"


def plan_files(documents: Sequence[Export], artifacts: Artifacts, lane: Lane) -> dict[str, Read]:
    """Return the readers of an export's files by name: the documents, and the files that they name.

    If several files have the same path, the newest has the plain name.
    """
    blocks = [block for document in documents for block in document.payload.get("blocks", ())]
    blocks.sort(
        key=lambda block: block["path"].startswith("fi:")
    )  # a result may also contain the body of a file
    bodies = {one["body"]["sha256"]: (one["body"]["key"], one["path"]) for one in blocks if one.get("body")}
    names = FileNames()
    return {name_document(document): partial(_encode, document) for document in documents} | {
        f"{FILES}/{names.choose(path, sha256)}": partial(_fetch, artifacts, key, sha256)
        for sha256, (key, path) in reversed(bodies.items())
        if f"/{lane.tenant}/{lane.project}/" in key
    }


def _encode(document: Export) -> bytes:
    return f"{json.dumps(document.payload, ensure_ascii=False, indent=1)}\n".encode()


def _fetch(artifacts: Artifacts, key: str, sha256: str) -> bytes | None:
    """Return the body of a block, None if it is deleted, or its hash is not the one in the log."""
    try:
        return fetch_body(artifacts, key, sha256)
    except DependencyError as error:
        if error.reason not in LOST_BODY_CODES:
            raise
        return None
