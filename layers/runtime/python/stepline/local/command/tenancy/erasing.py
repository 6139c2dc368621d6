"""`stepline delete`, `stepline export-user` and `stepline erasures`: deletion by users and by a stage's operator."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.errors import InputError
from stepline.local.command.argument import (
    Login,
    check_conversation,
    confirm,
    json_option,
    login_options,
    naming,
    text_option,
    yes_option,
)
from stepline.local.counted import counted
from stepline.local.terminal.output import print_result

if TYPE_CHECKING:
    from stepline.local.client.http_api import HttpApi
    from stepline.log.bindings import Ports
    from stepline.ports.tenancy.erasure import Erasure


@click.command()
@click.argument("conversation", required=False, callback=check_conversation)
@click.option("--everything", is_flag=True, help="All your conversations, and all other data about you.")
@click.option("--cascade", is_flag=True, help="Delete its forks, too.")
@yes_option
@login_options
@json_option
def delete(
    *, conversation: str, everything: bool, cascade: bool, yes: bool, login: Login, as_json: bool
) -> None:
    """Delete a conversation, or all your data with --everything.

    Its branches are deleted with it, its forks with --cascade. A running turn ends. The conversation cannot be read any more; its data is erased within minutes, the last traces after a
    day.
    """
    if bool(conversation) == everything:
        raise click.UsageError("name one conversation, or add --everything")
    with closing(login.api()) as api:
        if not everything:
            check_deletable(api, conversation)
        what = "all your data" if everything else f"conversation {conversation}"
        what += " and all its forks" if cascade else ""
        if not yes and not confirm(f"delete {what} for good?"):
            raise InputError("nothing was deleted", code="not_confirmed")
        erasure = api.erase_me() if everything else api.delete_conversation(conversation, cascade=cascade)
    print_result(erasure, f"deleted; its data is being erased ({erasure.state})", as_json=as_json)


def check_deletable(api: HttpApi, conversation: str) -> None:
    """Raise NotFoundError `not_found` unless the conversation exists, or existed and is already deleted."""
    from stepline.local.client.api_transport import ApiError

    try:
        with naming(conversation):
            api.read_conversation(conversation)
    except ApiError as error:
        if error.reason != "conversation_deleted":
            raise


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.zip")
@login_options
@json_option
def export_user(file: Path, *, login: Login, as_json: bool) -> None:
    """Write all your data into one zip.

    The zip has each conversation with its turns, files, feedback, memory and receipts, and your limits. The exit code is 1 if
    a file could not be fetched; index.json in the zip lists it.
    """
    from stepline.local.user_archive import write_archive

    with closing(login.api()) as api:
        made = write_archive(api, file)
    text = f"{made.path}: {counted(made.conversations, 'conversation')}, {counted(made.files, 'file')}"
    print_result(made, text, as_json=as_json)
    if made.missing:
        raise InputError(
            f"{counted(len(made.missing), 'file')} could not be fetched", code="file_not_fetched"
        )


_table_option = text_option(
    "--table", metavar="NAME", help="The table of a stage in AWS; default: that of the local stage."
)
_bucket_option = text_option("--bucket", metavar="NAME", help="With --table: the bucket of the stage.")
_profile_option = text_option("--profile", metavar="NAME", help="With --table: the AWS profile.")
_region_option = text_option("--region", metavar="REGION", help="With --table: the AWS region.")


@click.group()
def erasures() -> None:
    """List deletions, or apply them to a restored table."""


@erasures.command(name="list")
@_table_option
@_bucket_option
@_profile_option
@_region_option
@json_option
def list_erasures(*, table: str, bucket: str, profile: str, region: str, as_json: bool) -> None:
    """List the tombstones in the bucket with their state in the table.

    A `missing` one is not in the table, which was restored to an earlier time; apply puts it back.
    """
    _, erasure = _open(table, bucket, profile, region)
    for kept in erasure.kept():
        found = erasure.tombstone(kept.lane)
        state = "missing" if found is None else "done" if found.done_at else "pending"
        row = {"lane": kept.lane.key(), "deleted_at": kept.deleted_at, "state": state}
        print_result(row, f"{kept.deleted_at}  {state:8} {kept.lane.prefix()}", as_json=as_json)


@erasures.command()
@_table_option
@_bucket_option
@_profile_option
@_region_option
@json_option
def apply(*, table: str, bucket: str, profile: str, region: str, as_json: bool) -> None:
    """Apply all deletions to a table that was restored to an earlier time.

    Run it before the table is used. It may be run again; the eraser deletes what is left.
    """
    from stepline.log.erase_conversation import apply_tombstones, erase_pending

    ports, erasure = _open(table, bucket, profile, region)
    buried = apply_tombstones(ports, erasure)
    counts = {"buried": buried, **erase_pending(ports, erasure)}
    print_result(counts, ", ".join(f"{name} {count}" for name, count in counts.items()), as_json=as_json)
    if counts["failed"]:
        raise InputError(
            f"{counted(counts['failed'], 'conversation')} could not be erased: run the command again",
            code="not_erased",
        )


def _open(table: str, bucket: str, profile: str, region: str) -> tuple[Ports, Erasure]:
    """Return the ports over a table and a bucket, those of the local stage if none are named."""
    if bool(table) != bool(bucket):
        raise click.UsageError("--table and --bucket are needed together")
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
    """Return the ports over a table and a bucket, as the erasing function has them."""
    from stepline.adapters.memory.clock import MemoryMeter
    from stepline.bootstrap.app import App
    from stepline.bootstrap.aws_wiring import on_aws
    from stepline.settings import Settings

    ports = on_aws(Settings(table=table, bucket=bucket), MemoryMeter(), App).ports
    if ports.erasure is None:
        raise InputError("this stage erases nothing", code="not_deployed")
    return ports, ports.erasure
