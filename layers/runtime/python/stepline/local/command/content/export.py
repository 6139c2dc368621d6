"""`stepline export`: a conversation as documents, printed, or written to a folder with its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import (
    conversation_argument,
    json_option,
    out_option,
    text_option,
)
from stepline.local.command.content.recorded_source import RecordPlace, record_options
from stepline.local.exported_files import name_document, plan_files
from stepline.local.named_files import check_folder, write_files

if TYPE_CHECKING:
    from stepline.model.ids import Lane
    from stepline.ports.artifacts import Artifacts
    from stepline.ports.log import Log
    from stepline.timeline.export import Export

TTL_S = 300


@click.command()
@conversation_argument
@text_option("--turn", metavar="ID", help="Only the log of this turn.")
@out_option
@click.option("--overwrite", is_flag=True, help="With --out or --record: replace existing files.")
@click.option(
    "--record",
    "record_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the whole log into this zip instead, for `replay` and `eval`.",
)
@record_options
@json_option
def export(
    conversation: str,
    turn: str,
    out: Path | None,
    *,
    overwrite: bool,
    record_path: Path | None,
    place: RecordPlace,
    as_json: bool,
) -> None:
    """Export a conversation of the local stage as documents.

    The documents are its timeline, its sources, and the log of each turn. Each one is printed as a line of JSON with `kind`,
    `tags`, `text` for an index, and `payload`. With --out the documents and the files of the conversation are written into a
    folder, and their paths are printed.

    With --record a conversation, also of a deployed stage, becomes a file for `stepline replay` and `stepline eval`. It has
    the texts of the requests and the settings that change them, and no secret. The options of a stage need --record.
    """
    import msgspec

    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.model.ids import make_lane

    if record_path:
        from stepline.replay.record_file import write_record_file

        if turn or out:
            raise click.UsageError("--record writes the whole conversation, without --turn and --out")
        write_record_file(record_path, place.find(conversation), overwrite=overwrite)
        click.echo(render_json_line({"kind": "record", "path": str(record_path)}) if as_json else record_path)
        return
    if place.stage:
        raise click.UsageError("--stage needs --record")
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
