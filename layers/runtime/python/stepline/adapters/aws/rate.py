"""Message counts of users, projects and tenants, one row per minute."""

from __future__ import annotations

from typing import Final

from stepline.adapters.aws.error import mapped
from stepline.adapters.aws.table import Table, key, rate_pk
from stepline.model.tenancy.limits import Scope

KEPT_MINUTES: Final = 5
"""The minutes after which AWS may delete a row."""


class DynamoRate:
    """One update per message. An update repeated by botocore counts twice: the limit is a bound, not exact."""

    def __init__(self, table: Table) -> None:
        """Store rows in `table`."""
        self._table = table

    def count(self, scope: Scope, minute: int) -> int:
        expires_at = (minute + 1 + KEPT_MINUTES) * 60
        with mapped():
            answer = self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(rate_pk(scope.tenant, scope.project, scope.user), str(minute)),
                UpdateExpression="ADD said :one SET expires_at = :expires_at",
                ExpressionAttributeValues={":one": {"N": "1"}, ":expires_at": {"N": str(expires_at)}},
                ReturnValues="UPDATED_NEW",
            )
        return int(answer["Attributes"]["said"]["N"])
