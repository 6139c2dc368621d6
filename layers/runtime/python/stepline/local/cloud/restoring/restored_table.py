"""A table restored to a point in time: DynamoDB makes a new one, with the data and the indexes, and without other settings.

Source: DynamoDB API reference, RestoreTableToPointInTime; its page names what must be set up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from stepline.errors import DependencyError, InputError
from stepline.local.cloud.account import Account, error_code
from stepline.local.stage.emulator import Progress
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
    """The restore of one table of an account; every step may be taken again."""

    def __init__(self, account: Account, source: str, clock: Clock, say: Progress) -> None:
        """Restore from `source`."""
        self._client = account.client("dynamodb")
        self._source, self._clock, self._say = source, clock, say

    def check_point(self, at: str) -> datetime:
        """Return the time to restore to in whole seconds, the latest possible one without `at`.

        Raises:
            InputError: `bad_choice`, it is no time, or not in the table's window.
            DependencyError: `cloud_deploy`, the table has no point-in-time recovery, or AWS refuses.
        """
        with _asked():
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
        """Let DynamoDB make the table; one that an earlier call began is used."""
        with _asked():
            try:
                self._client.restore_table_to_point_in_time(
                    SourceTableName=self._source, TargetTableName=target, RestoreDateTime=point
                )
            except self._client.exceptions.TableAlreadyExistsException:
                self._say(f"{target} exists already: continuing")

    def wait(self, target: str) -> None:
        """Wait until the table and its indexes can be used. Raises DependencyError `cloud_deploy` after half a day."""
        until_s = self._clock.monotonic_s() + PATIENCE_S
        while True:
            with _asked():
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
        """Set what a restored table does not have: expiry, recovery of its own, and the protection of its source."""
        with _asked():
            expiry = self._client.describe_time_to_live(TableName=target)["TimeToLiveDescription"]
            if expiry["TimeToLiveStatus"] not in ("ENABLED", "ENABLING"):
                self._client.update_time_to_live(
                    TableName=target,
                    TimeToLiveSpecification={"Enabled": True, "AttributeName": EXPIRY},
                )
            self._client.update_continuous_backups(
                TableName=target,
                PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
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
def _asked() -> Iterator[None]:
    """Let a refusal of AWS be an error of ours that names the permissions."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        code = error_code(error) if isinstance(error, ClientError) else ""
        remedy = f"; this needs {RIGHTS}" if code.startswith("AccessDenied") else ""
        raise DependencyError(
            f"the table cannot be restored: {error}{remedy}", code="cloud_deploy"
        ) from error
