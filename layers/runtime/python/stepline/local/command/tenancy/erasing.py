"""`stepline delete`, `stepline export-user` and `stepline erasures`: what a user, and who runs a stage, may have erased."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepline.errors import InputError
from stepline.local.command.argument import (
    check_conversation,
    json_option,
    stage_option,
    token_option,
    user_option,
)
from stepline.local.command.cloud import yes_option

if TYPE_CHECKING:
    from stepline.local.client.http_api import HttpApi
    from stepline.log.bindings import Ports
    from stepline.ports.tenancy.erasure import Erasure


@click.command()
@click.argument("conversation", required=False, callback=check_conversation)
@click.option(
    "--everything", is_flag=True, help="All your conversations, and whatever else is kept of you there."
)
@yes_option
@user_option
@stage_option
@token_option
@json_option
def delete(
    *,
    conversation: str,
    everything: bool,
    yes: bool,
    user: str,
    stage: str,
    token_command: str,
    as_json: bool,
) -> None:
    """Delete a conversation for good, or all that is kept.

    All with --everything. A turn that runs ends. Nobody can read it from then on; what was kept of it goes within minutes, its last traces after
    a day.
    """
    if bool(conversation) == everything:
        raise click.UsageError("name one conversation, or ask for --everything")
    if not yes:
        what = "everything that is kept of you" if everything else conversation
        click.confirm(f"Delete {what} for good?", abort=True, err=True)
    with closing(open_api(stage, user, token_command)) as api:
        told = api.erase_me() if everything else api.delete_conversation(conversation)
    _echo(told, as_json=as_json, text=f"deleted; what was kept of it goes now ({told.state})")


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.zip")
@user_option
@stage_option
@token_option
@json_option
def export_user(file: Path, *, user: str, stage: str, token_command: str, as_json: bool) -> None:
    """Write everything that is kept of you into one zip.

    It has each conversation with its turns, files, feedback, memory and receipts, and your limits. Exit code 1 if a file
    could not be fetched; the zip's index.json names it.
    """
    from stepline.local.user_archive import write_archive

    with closing(open_api(stage, user, token_command)) as api:
        made = write_archive(api, file)
    text = f"{made.path}: {made.conversations} conversations, {made.files} files"
    _echo(made, as_json=as_json, text=text)
    if made.missing:
        raise InputError(f"{len(made.missing)} files could not be fetched", code="file_not_fetched")


_table_option = click.option(
    "--table", default="", metavar="NAME", help="The table of a stage in AWS; default: the local stage's."
)
_bucket_option = click.option("--bucket", default="", metavar="NAME", help="The bucket that goes with it.")
_profile_option = click.option("--profile", default="", metavar="NAME", help="AWS profile, with --table.")
_region_option = click.option("--region", default="", metavar="REGION", help="AWS region, with --table.")


@click.group()
def erasures() -> None:
    """Show what was deleted, or delete it again."""


@erasures.command(name="list")
@_table_option
@_bucket_option
@_profile_option
@_region_option
@json_option
def list_erasures(*, table: str, bucket: str, profile: str, region: str, as_json: bool) -> None:
    """List the tombstones that the bucket keeps, each with what the table knows of it.

    `missing` is one that the table does not have, because it was restored to a time before: apply brings it back.
    """
    _, erasure = _open(table, bucket, profile, region)
    for kept in erasure.kept():
        standing = erasure.tombstone(kept.lane)
        state = "missing" if standing is None else "done" if standing.done_at else "pending"
        row = {"lane": kept.lane.key(), "deleted_at": kept.deleted_at, "state": state}
        _echo(row, as_json=as_json, text=f"{kept.deleted_at}  {state:8} {kept.lane.prefix()}")


@erasures.command()
@_table_option
@_bucket_option
@_profile_option
@_region_option
@json_option
def apply(*, table: str, bucket: str, profile: str, region: str, as_json: bool) -> None:
    """Delete again what was deleted, in a table that was restored to a time before.

    Nothing is served from that table before. May be run again; what is left after it goes by the eraser's clock, or by
    another run.
    """
    from stepline.log.erase_conversation import apply_tombstones, erase_pending

    ports, erasure = _open(table, bucket, profile, region)
    buried = apply_tombstones(ports, erasure)
    counts = {"buried": buried, **erase_pending(ports, erasure)}
    _echo(counts, as_json=as_json, text=", ".join(f"{name} {count}" for name, count in counts.items()))
    if counts["failed"]:
        raise InputError(f"{counts['failed']} could not be erased: run it again", code="not_erased")


def open_api(stage: str, user: str, token_command: str) -> HttpApi:
    """Return the HTTP API as the caller of a command. Raises InputError `not_deployed`."""
    from stepline.local.client.http_api import HttpApi
    from stepline.local.command.conversations import find_caller

    caller = find_caller(stage, user, token_command)
    if not caller.api_url:
        raise InputError("the address of the HTTP API is not known here", code="not_deployed")
    return HttpApi(caller.api_url, caller.token)


def _open(table: str, bucket: str, profile: str, region: str) -> tuple[Ports, Erasure]:
    """Return the ports over a table and a bucket, those of the local stage if none are named."""
    if bool(table) != bool(bucket):
        raise click.UsageError("--table and --bucket go together")
    if table:
        named = {"AWS_PROFILE": profile, "AWS_DEFAULT_REGION": region}
        os.environ.update({name: value for name, value in named.items() if value})  # noqa: TID251 - botocore's own variables
        return open_erasure(table, bucket)
    from stepline.local.caller import find_stage
    from stepline.local.command.batches import open_log

    stage = find_stage()
    open_log(stage)
    return open_erasure(stage.table, stage.bucket)


def open_erasure(table: str, bucket: str) -> tuple[Ports, Erasure]:
    """Return the ports over a table and a bucket, as the function that erases has them."""
    from stepline.adapters.memory.clock import MemoryMeter
    from stepline.bootstrap.app import App
    from stepline.bootstrap.aws_wiring import on_aws
    from stepline.settings import Settings

    ports = on_aws(Settings(table=table, bucket=bucket), MemoryMeter(), App).ports
    if ports.erasure is None:
        raise InputError("nothing is erased here", code="not_deployed")
    return ports, ports.erasure


def _echo(value: Any, *, as_json: bool, text: str) -> None:
    import msgspec

    from stepline.local.safe_text import clean_line
    from stepline.local.terminal.json_lines import render_json

    click.echo(render_json(msgspec.to_builtins(value)) if as_json else clean_line(text))
