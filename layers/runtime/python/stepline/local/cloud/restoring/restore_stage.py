"""`stepline restore`: a stage as it was, on a new table, and deployed again. Source: docs/how-to/restore.md."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stepline.errors import DependencyError, InputError
from stepline.local.cloud.account import Account
from stepline.local.cloud.deploy import Desk, Order, deploy, find_deployment, must
from stepline.local.cloud.deployment import Deployment
from stepline.local.cloud.restoring.bucket_then import bring_back
from stepline.local.cloud.restoring.restored_table import RestoredTable
from stepline.ports.clock import Clock

TABLE: Final = "table_name"
"""The choice of a stage that names the table."""


def restore(order: Order, at: str, source: str, desk: Desk, clock: Clock) -> tuple[Deployment, int]:
    """Restore the table and the objects of a stage, and deploy the stage on them; return what `deploy` does.

    `at` is a time, "" for the latest that can be restored; `source` another table of the stage than the one that it uses. It
    may be run again: it continues.

    Raises:
        AuthError, InputError: `cloud_account`, as for a deployment; InputError `bad_choice`, the time.
        DependencyError: `cloud_deploy`, a step failed, or it was not confirmed.
    """
    account, known = find_deployment(order, desk)
    try:
        table, bucket = source or known.outputs["TableName"], known.outputs["BucketName"]
    except KeyError as missing:
        raise InputError(
            f"stage {order.stage} was not deployed from here: run stepline deploy --stage {order.stage} first",
            code="cloud_account",
        ) from missing
    restored = RestoredTable(account, table, clock, desk.say)
    point = restored.check_point(at)
    target = name_table(order.stage, point)
    desk.say(f"{table} at {point:%Y-%m-%dT%H:%M:%SZ} is restored as {target}, and {bucket} to the same time")
    desk.say("the stage loses the messages since then; its current table is kept")
    if not desk.confirm(f"restore stage {order.stage} in account {known.account}, {known.region}?"):
        raise DependencyError("nothing was restored", code="cloud_deploy")
    restored.begin(target, point)
    desk.say("waiting for DynamoDB; this takes minutes, for a large table hours")
    restored.wait(target)
    restored.settle(target)
    # Before anybody reads the table.
    _count(bring_back(account, bucket, at=point, until=clock.now()), desk)
    _erase_again(account, target, bucket, desk)
    began = clock.now()
    deployment, code = deploy(replace(order, choices={**order.choices, TABLE: target}), desk)
    # What functions of the former deployment wrote in between, and what was deleted.
    _count(bring_back(account, bucket, at=point, until=began), desk)
    _erase_again(account, target, bucket, desk)
    desk.say(f"the stage is restored to {point:%Y-%m-%dT%H:%M:%SZ}; {table} is kept until you delete it")
    return deployment, code


def name_table(stage: str, point: datetime) -> str:
    """Return the name of a stage's table as of a time: the same for the same time, so that a restore can be gone on with."""
    return f"stepline-{stage}-{point:%Y%m%d%H%M%S}"


def _from(source: str) -> str:
    return f" --from {source}" if source else ""


def _count(counts: Mapping[str, int], desk: Desk) -> None:
    for name, count in sorted(counts.items()):
        desk.say(f"objects {name}: {count}")


def _erase_again(account: Account, table: str, bucket: str, desk: Desk) -> None:
    command = [str(Path(sys.executable).with_name("stepline")), "erasures", "apply"]
    remedy = "run it again to erase the rest: stepline erasures apply, docs/concepts/erasure.md"
    must(desk, [*command, "--table", table, "--bucket", bucket], account, remedy)
