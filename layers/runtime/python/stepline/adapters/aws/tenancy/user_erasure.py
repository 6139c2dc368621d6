"""The erasures of users as rows; the ones that are not done are in the index of pending work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.aws.error import CONDITION_FAILED, Item, mapped, tolerated
from stepline.adapters.aws.table import OPEN_INDEX, Table, key, person_pk
from stepline.model.ids import person
from stepline.ports.tenancy.user_erasure import KEPT_S, UserErasure

if TYPE_CHECKING:
    from stepline.ports.clock import Clock

ERASURE: Final = "ERASURE"
PENDING: Final = "erase_user"
"""The partition of the index with the users who are to be erased."""

_DECODER: Final = msgspec.json.Decoder(UserErasure)


class DynamoUserErasures:
    """A row names its user as long as the erasure needs the name."""

    def __init__(self, table: Table, clock: Clock) -> None:
        """Keep rows in `table`; `clock` decides what is forgotten, because AWS deletes days later."""
        self._table = table
        self._clock = clock

    def ask(self, erasure: UserErasure) -> UserErasure:
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "put_item",
                TableName=self._table.name,
                Item=self._row(erasure),
                ConditionExpression="attribute_not_exists(lane_shard)",
            )
            return erasure
        return self._read(_pk(erasure)) or erasure

    def get(self, tenant: str, project: str, user: str) -> UserErasure | None:
        return self._read(person_pk(tenant, project, person(tenant, project, user)))

    def keep(self, erasure: UserErasure, *, before: UserErasure) -> bool:
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "put_item",
                TableName=self._table.name,
                Item=self._row(erasure),
                ConditionExpression="body = :before",
                ExpressionAttributeValues={":before": {"B": msgspec.json.encode(before)}},
            )
            return True
        return self._read(_pk(erasure)) == erasure  # an answer was lost, and the put was repeated

    def pending(self) -> list[UserErasure]:
        rows = self._table.query("lane_shard = :kind", {":kind": {"S": PENDING}}, IndexName=OPEN_INDEX)
        found = [self._read(row["pk"]["S"]) for row in rows]
        return [erasure for erasure in found if erasure and not erasure.done_at]

    def _read(self, pk: str) -> UserErasure | None:
        row = self._table.get(pk, ERASURE, consistent=True)
        if row is None or int(row.get("expires_at", _NEVER)["N"]) <= self._clock.now().timestamp():
            return None
        return _DECODER.decode(row["body"]["B"])

    def _row(self, erasure: UserErasure) -> Item:
        row = {**key(_pk(erasure), ERASURE), "body": {"B": msgspec.json.encode(erasure)}}
        if erasure.done_at:
            return {**row, "expires_at": {"N": str(int(self._clock.now().timestamp()) + KEPT_S)}}
        return {**row, "lane_shard": {"S": PENDING}, "lane_since": {"S": erasure.asked_at}}


def _pk(erasure: UserErasure) -> str:
    return person_pk(erasure.tenant, erasure.project, erasure.whose)


_NEVER: Final = {"N": str(2**62)}
