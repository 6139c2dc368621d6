"""`stepline export`: a conversation as documents, printed, or written to a folder together with the files that they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.errors import InputError
from stepline.local.command.argument import conversation_argument, json_option, no_conversation, text_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepline.model.ids import Lane
    from stepline.ports.artifacts import Artifacts
    from stepline.ports.log import Log
    from stepline.timeline.export import Export

TTL_S = 300
FILES = "files"
"""The folder of the files, each named by its hash."""


@click.command()
@conversation_argument
@text_option("--turn", metavar="ID", help="Only the log of this turn.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the documents and the files that they name into this folder, and print their names.",
)
@json_option
def export(conversation: str, turn: str, out: Path | None, *, as_json: bool) -> None:
    """Export a conversation of the local stage as documents.

    They are its timeline, its sources, and the log of each turn. Without --out every document is one JSON object a line (with --json as well): `kind`, `tags`, `text` for an index, `payload`.
    """
    import msgspec

    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.terminal.json_lines import render_json
    from stepline.model.ids import make_lane

    log, artifacts = open_log(find_stage())
    lane = make_lane(TENANT, PROJECT, conversation)
    documents = exports(log, artifacts, lane, turn)
    for document in documents:
        if not out:
            click.echo(render_json(msgspec.to_builtins(document)))
            continue
        path = write(document, out)
        click.echo(render_json({"kind": document.kind, "path": path}) if as_json else path)
    if out:
        for path in write_files(documents, artifacts, lane, out):
            click.echo(render_json({"kind": "file", "path": path}) if as_json else path)


def exports(log: Log, artifacts: Artifacts, lane: Lane, turn: str = "") -> list[Export]:
    """Return the documents of a conversation, or of one turn.

    Raises NotFoundError: `not_found`, or `turn_not_found`.
    """
    from stepline.local.command.batches import read_batches
    from stepline.timeline.export import export_conversation, export_turn
    from stepline.timeline.fold import Timeline

    timeline = Timeline.empty(lane).extended(read_batches(log, artifacts, lane))
    if not timeline.n:
        raise no_conversation(lane.conversation)
    return [export_turn(timeline, turn)] if turn else list(export_conversation(timeline, ttl_s=TTL_S))


def write(document: Export, folder: Path) -> str:
    """Write a document's payload to its file in the folder and return the path.

    Raises InputError `not_writable`.
    """
    name = document.kind.removeprefix("artifact:").replace(":", ".")
    turn = document.payload.get("turn_id", "")
    path = folder / name / f"{turn}.json" if turn else folder / f"{name}.json"
    _write(path, f"{json.dumps(document.payload, ensure_ascii=False, indent=1)}\n".encode())
    return str(path)


def write_files(documents: Sequence[Export], artifacts: Artifacts, lane: Lane, folder: Path) -> Iterator[str]:
    """Write the bytes of each file that documents name to `files/<sha256>` in the folder, and yield the paths.

    What is gone, or is not what the log names, is left out. Raises InputError `not_writable`.
    """
    from stepline.errors import DependencyError
    from stepline.log.spill import LOST, fetch_body

    blocks = [block for document in documents for block in document.payload.get("blocks", ())]
    bodies = {block["body"]["sha256"]: block["body"]["key"] for block in blocks if block.get("body")}
    for sha256, key in bodies.items():
        if f"/{lane.tenant}/{lane.project}/" not in key:
            continue
        try:
            body = fetch_body(artifacts, key, sha256)
        except DependencyError as error:
            if error.reason not in LOST:
                raise
            continue
        path = folder / FILES / sha256
        _write(path, body)
        yield str(path)


def _write(path: Path, body: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", code="not_writable") from error
