"""`stepline export`: a conversation as documents, printed, or written to a folder with its files."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import (
    conversation_argument,
    json_option,
    out_option,
    overwrite_option,
    text_option,
)
from stepline.local.named_files import FileNames, Read, check_folder, write_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepline.model.ids import Lane
    from stepline.ports.artifacts import Artifacts
    from stepline.ports.log import Log
    from stepline.timeline.export import Export

TTL_S = 300
FILES = "files"
"""The folder of the files."""


@click.command()
@conversation_argument
@text_option("--turn", metavar="ID", help="Only the log of this turn.")
@out_option
@overwrite_option
@json_option
def export(conversation: str, turn: str, out: Path | None, *, overwrite: bool, as_json: bool) -> None:
    """Export a conversation of the local stage as documents.

    The documents are its timeline, its sources, and the log of each turn. Each one is printed as a line of JSON with `kind`,
    `tags`, `text` for an index, and `payload`. With --out the documents and the files of the conversation are written into a
    folder, and their paths are printed.
    """
    import msgspec

    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.model.ids import make_lane

    if out:
        check_folder(out)
    log, artifacts = open_log(find_stage())
    lane = make_lane(TENANT, PROJECT, conversation)
    documents = exports(log, artifacts, lane, turn)
    if not out:
        for document in documents:
            click.echo(render_json_line(msgspec.to_builtins(document)))
        return
    kinds = {name_document(document): document.kind for document in documents}
    for name, path in write_files(out, plan_files(documents, artifacts, lane), overwrite=overwrite):
        kind = kinds.get(name, "file")
        click.echo(render_json_line({"kind": kind, "path": path}) if as_json else path)


def exports(log: Log, artifacts: Artifacts, lane: Lane, turn: str = "") -> list[Export]:
    """Return the documents of a conversation, or of one turn.

    Raises NotFoundError: `not_found`, or `turn_not_found`.
    """
    from stepline.local.command.batches import read_timeline
    from stepline.timeline.export import export_conversation, export_turn

    timeline = read_timeline(log, artifacts, lane)
    return [export_turn(timeline, turn)] if turn else list(export_conversation(timeline, ttl_s=TTL_S))


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
    from stepline.errors import DependencyError
    from stepline.log.spill import LOST_BODY_CODES, fetch_body

    try:
        return fetch_body(artifacts, key, sha256)
    except DependencyError as error:
        if error.reason not in LOST_BODY_CODES:
            raise
        return None
