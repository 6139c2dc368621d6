"""`stepline restore`: restore an earlier state of a stage on a new table, and deploy it again.

DynamoDB creates a new table with the data and the indexes, but without other settings. In the bucket, each object that
changed since then gets its former version back. Bodies are named by their content and are only undeleted. Objects of
turns that the table has lost are deleted: they would be mistaken for those of a new turn's calls, and would never be
erased. Objects that changed after `until` are not touched, nor are tombstones: they list the later deletions. Source:
docs/how-to/restore.md; DynamoDB API reference, RestoreTableToPointInTime.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from msgspec.structs import replace

from stepline.errors import DependencyError, InputError
from stepline.local.cloud.account import AwsAccount, aws_error_code
from stepline.local.cloud.deploy import Desk, Order, deploy_stage, find_deployment, must
from stepline.local.cloud.deployment import Deployment
from stepline.local.stage.emulator import Progress
from stepline.model.base import Value
from stepline.ports.clock import Clock

PAUSE_S: Final = 20.0
PATIENCE_S: Final = 12 * 3600.0
"""Most restores take less than an hour, those of large tables several."""
EXPIRY: Final = "expires_at"
"""The attribute by which rows expire."""
RIGHTS: Final = (
    "dynamodb:RestoreTableToPointInTime, DescribeContinuousBackups, UpdateContinuousBackups, DescribeTable, UpdateTable,"
    " DescribeTimeToLive, UpdateTimeToLive, and Scan, Query, GetItem, PutItem, UpdateItem, DeleteItem, BatchWriteItem"
)
"""The permissions; those on items are DynamoDB's own condition for writing the new table."""


class RestoredTable:
    """The restore of one table of an account; every step may be repeated."""

    def __init__(self, account: AwsAccount, source: str, clock: Clock, say: Progress) -> None:
        self._client = account.client("dynamodb")
        self._source, self._clock, self._say = source, clock, say

    def check_point(self, at: str) -> datetime:
        """Return the time to restore to in whole seconds, the latest possible one without `at`.

        Raises:
            InputError: `bad_choice`, it is not a time, or is outside the table's window.
            DependencyError: `cloud_deploy`, the table has no point-in-time recovery, or AWS refuses.
        """
        with _explain_refusal():
            found = self._client.describe_continuous_backups(TableName=self._source)
        recovery = found["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
            raise DependencyError(
                f"{self._source} has no point-in-time recovery, so it cannot be restored", code="cloud_deploy"
            )
        earliest, latest = recovery["EarliestRestorableDateTime"], recovery["LatestRestorableDateTime"]
        point = (_read_time(at) if at else latest).astimezone(UTC).replace(microsecond=0)
        if not earliest <= point <= latest:
            raise InputError(
                f"--at {_text(point)}: {self._source} can be restored from {_text(earliest)} to {_text(latest)}",
                code="bad_choice",
            )
        return point

    def begin(self, target: str, point: datetime) -> None:
        """Have DynamoDB create the table; a table that an earlier call began is used."""
        with _explain_refusal():
            try:
                self._client.restore_table_to_point_in_time(
                    SourceTableName=self._source, TargetTableName=target, RestoreDateTime=point
                )
            except self._client.exceptions.TableAlreadyExistsException:
                self._say(f"{target} exists already: continuing")

    def wait(self, target: str) -> None:
        """Wait until the table and its indexes are usable. Raises DependencyError `cloud_deploy` after half a day."""
        until_s = self._clock.monotonic_s() + PATIENCE_S
        while True:
            with _explain_refusal():
                table = self._client.describe_table(TableName=target)["Table"]
            indexes = [index["IndexStatus"] for index in table.get("GlobalSecondaryIndexes", [])]
            if {table["TableStatus"], *indexes} == {"ACTIVE"}:
                return
            if self._clock.monotonic_s() > until_s:
                raise DependencyError(
                    f"{target} is still {table['TableStatus']}: run the command again to continue",
                    code="cloud_deploy",
                )
            self._clock.pause(PAUSE_S)

    def settle(self, target: str) -> None:
        """Set what a restored table lacks: expiry, its own recovery, and its source's deletion protection."""
        with _explain_refusal():
            expiry = self._client.describe_time_to_live(TableName=target)["TimeToLiveDescription"]
            if expiry["TimeToLiveStatus"] not in ("ENABLED", "ENABLING"):
                self._client.update_time_to_live(
                    TableName=target, TimeToLiveSpecification={"Enabled": True, "AttributeName": EXPIRY}
                )
            self._client.update_continuous_backups(
                TableName=target, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
            )
            source = self._client.describe_table(TableName=self._source)["Table"]
            if source.get("DeletionProtectionEnabled", False):
                self._client.update_table(TableName=target, DeletionProtectionEnabled=True)


def _read_time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"--at {text}: write the time like 2026-11-26T07:00:00Z", code="bad_choice"
        ) from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def _explain_refusal() -> Iterator[None]:
    """Convert a refusal by AWS to an error that names the permissions."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        remedy = f"; this needs {RIGHTS}" if aws_error_code(error).startswith("AccessDenied") else ""
        raise DependencyError(
            f"the table cannot be restored: {error}{remedy}", code="cloud_deploy"
        ) from error


PREFIXES: Final = ("att/", "exec/", "git/", "mem/", "out/", "seg/", "store/")
"""The objects that a log, a turn, a user's memory or a bundle names."""
PER_DELETE: Final = 1_000
"""The most versions that one request deletes, by S3's limits."""


class Seen(Value):
    """One version of an object, or a delete marker."""

    key: str
    version: str
    at: datetime
    is_marker: bool = False


class ObjectChange(Value):
    """A change to one object: versions to delete, `""` to put a delete marker on top, or the version to put on top."""

    key: str
    deleted: tuple[str, ...] = ()
    copied: str = ""


def bring_back(account: AwsAccount, bucket: str, *, at: datetime, until: datetime) -> Counter[str]:
    """Restore the bucket to its state `at`, but not writes after `until`; return the number of objects by change.

    Raises DependencyError `cloud_deploy`.
    """
    s3 = account.client("s3")
    try:
        changes = [
            change
            for prefix in PREFIXES
            for _, versions in groupby(_read(s3, bucket, prefix), attrgetter("key"))
            if (change := plan_change(list(versions), at=at, until=until))
        ]
        return _apply(s3, bucket, changes)
    except (BotoCoreError, ClientError) as error:
        raise DependencyError(
            f"{bucket} cannot be restored: {error}; this needs s3:ListBucketVersions, GetObjectVersion, PutObject,"
            " DeleteObject and DeleteObjectVersion",
            code="cloud_deploy",
        ) from error


def plan_change(versions: Iterable[Seen], *, at: datetime, until: datetime) -> ObjectChange | None:
    """Return the change that restores an object, from all its versions; None if it is unchanged, or written since."""
    newest, *_ = ordered = sorted(versions, key=attrgetter("at"), reverse=True)
    if not at < newest.at <= until:
        return None
    since = [one for one in ordered if one.at > at]
    then = next((one for one in ordered if one.at <= at), None)
    if then is None or then.is_marker:
        return None if newest.is_marker else ObjectChange(key=newest.key, deleted=("",))
    if all(one.is_marker for one in since):
        return ObjectChange(key=newest.key, deleted=tuple(one.version for one in since))
    return ObjectChange(key=newest.key, copied=then.version)


def _read(s3: Any, bucket: str, prefix: str) -> Iterator[Seen]:
    """Yield versions and markers, grouped by object."""
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        found = [
            *(_to_seen(one) for one in page.get("Versions", [])),
            *(_to_seen(one, is_marker=True) for one in page.get("DeleteMarkers", [])),
        ]
        yield from sorted(found, key=attrgetter("key"))


def _to_seen(one: Mapping[str, Any], *, is_marker: bool = False) -> Seen:
    return Seen(key=one["Key"], version=one["VersionId"], at=one["LastModified"], is_marker=is_marker)


def _apply(s3: Any, bucket: str, changes: Iterable[ObjectChange]) -> Counter[str]:
    counts: Counter[str] = Counter()
    doomed: list[dict[str, str]] = []
    for change in changes:
        if change.copied:
            source = {"Bucket": bucket, "Key": change.key, "VersionId": change.copied}
            s3.copy_object(Bucket=bucket, Key=change.key, CopySource=source)
            counts["replaced"] += 1
            continue
        counts["deleted" if change.deleted == ("",) else "undeleted"] += 1
        doomed += [
            {"Key": change.key, "VersionId": version} if version else {"Key": change.key}
            for version in change.deleted
        ]
    for start in range(0, len(doomed), PER_DELETE):
        some = doomed[start : start + PER_DELETE]
        refused = s3.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True}).get("Errors")
        if refused:
            raise DependencyError(
                f"{bucket}: {refused[0]['Key']} could not be restored: {refused[0]['Message']}",
                code="cloud_deploy",
            )
    return counts


TABLE: Final = "table_name"
"""The choice of a stage that names the table."""


def restore_deployment(
    order: Order, at: str, source: str, desk: Desk, clock: Clock
) -> tuple[Deployment, int]:
    """Restore the table and the objects of a stage, and deploy the stage on them; return the result of `deploy`.

    `at` is a time, "" for the latest that can be restored; `source` another table of the stage than the current one.
    After a failure, the same call continues.

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
    # Before any function reads the table.
    _count(bring_back(account, bucket, at=point, until=clock.now()), desk)
    _erase_again(account, target, bucket, desk)
    began = clock.now()
    deployment, code = deploy_stage(replace(order, choices={**order.choices, TABLE: target}), desk)
    # Functions of the former deployment wrote objects in between, and deletions happened.
    _count(bring_back(account, bucket, at=point, until=began), desk)
    _erase_again(account, target, bucket, desk)
    desk.say(f"the stage is restored to {point:%Y-%m-%dT%H:%M:%SZ}; {table} is kept until you delete it")
    return deployment, code


def name_table(stage: str, point: datetime) -> str:
    """Return the name of a stage's table as of a time: the same time gives the same name, so a restore can continue."""
    return f"stepline-{stage}-{point:%Y%m%d%H%M%S}"


def _count(counts: Mapping[str, int], desk: Desk) -> None:
    for name, count in sorted(counts.items()):
        desk.say(f"objects {name}: {count}")


def _erase_again(account: AwsAccount, table: str, bucket: str, desk: Desk) -> None:
    command = [str(Path(sys.executable).with_name("stepline")), "erasures", "apply"]
    remedy = "run it again to erase the rest: stepline erasures apply, docs/concepts/erasure.md"
    must(desk, [*command, "--table", table, "--bucket", bucket], account, remedy)
