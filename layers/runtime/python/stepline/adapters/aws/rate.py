"""Messages of a user, one row a minute."""

from __future__ import annotations

from typing import Final

from stepline.adapters.aws.error import mapped
from stepline.adapters.aws.table import Table, key, rate_pk
from stepline.ports.channel import Principal

KEPT_MINUTES: Final = 5
"""How long a row outlives its minute, before AWS may delete it."""


class DynamoRate:
    """One update a message. An update that botocore repeats counts twice: the limit is a bound, no ledger."""

    def __init__(self, table: Table) -> None:
        """Keep rows in `table`."""
        self._table = table

    def count(self, principal: Principal, minute: int) -> int:
        expires_at = (minute + 1 + KEPT_MINUTES) * 60
        with mapped():
            answer = self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(rate_pk(principal.tenant, principal.project, principal.user), str(minute)),
                UpdateExpression="ADD said :one SET expires_at = :expires_at",
                ExpressionAttributeValues={":one": {"N": "1"}, ":expires_at": {"N": str(expires_at)}},
                ReturnValues="UPDATED_NEW",
            )
        return int(answer["Attributes"]["said"]["N"])
