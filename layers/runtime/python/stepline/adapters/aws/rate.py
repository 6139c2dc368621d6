"""Counts of users, projects and tenants: a row for the messages of a minute, and one for each other kind of requests."""

from __future__ import annotations

from threading import Lock
from typing import Final

from stepline.adapters.aws.error import mapped
from stepline.adapters.aws.table import Table, key, rate_pk
from stepline.model.tenancy.limits import Scope
from stepline.model.tenancy.request_rates import RequestKind
from stepline.ports.rate import STEP

KEPT_MINUTES: Final = 5
"""The minutes after which AWS may delete a row."""


class DynamoRate:
    """One update per message, and one for STEP other requests that this process has counted.

    An update repeated by botocore counts twice: the limit is a bound, not exact.
    """

    def __init__(self, table: Table) -> None:
        """Store rows in `table`."""
        self._table = table
        self._lock = Lock()
        self._minute = 0
        self._told: dict[tuple[Scope, RequestKind], int] = {}
        self._own: dict[tuple[Scope, RequestKind], int] = {}

    def count(self, scope: Scope, minute: int) -> int:
        return self._add(scope, minute, str(minute), 1)

    def tally(self, scope: Scope, minute: int, kind: RequestKind) -> int:
        """`_own` are the requests of this process that the row has not, `_told` what it had when it was last asked."""
        whose = scope, kind
        with self._lock:
            if minute != self._minute:
                self._minute, self._told, self._own = minute, {}, {}
            own = self._own.get(whose, 0) + 1
            self._own[whose] = own % STEP
            if own < STEP:
                return self._told.get(whose, 0) + own
        told = self._add(scope, minute, f"{minute}#{kind}", STEP)
        with self._lock:
            if minute == self._minute:
                self._told[whose] = max(told, self._told.get(whose, 0))
        return told

    def _add(self, scope: Scope, minute: int, row: str, number: int) -> int:
        expires_at = (minute + 1 + KEPT_MINUTES) * 60
        with mapped():
            answer = self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(rate_pk(scope.tenant, scope.project, scope.user), row),
                UpdateExpression="ADD said :number SET expires_at = :expires_at",
                ExpressionAttributeValues={
                    ":number": {"N": str(number)},
                    ":expires_at": {"N": str(expires_at)},
                },
                ReturnValues="UPDATED_NEW",
            )
        return int(answer["Attributes"]["said"]["N"])
