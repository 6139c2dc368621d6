"""Stored text of the running generation: a row a piece, written without a condition, gone after an hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.aws.error import Item
from stepline.adapters.aws.table import Table, delta_pk, key
from stepline.ports.delta import DELTA_TTL_S, Delta

if TYPE_CHECKING:
    from stepline.model.ids import Lane
    from stepline.ports.clock import Clock


class DynamoDeltas:
    """Pieces sort by their key: the name, then the offset with its zeros."""

    def __init__(self, table: Table, clock: Clock) -> None:
        """Keep pieces in `table`; `clock` decides what has expired, because AWS deletes days later."""
        self._table = table
        self._clock = clock

    def put(self, lane: Lane, claim: int, delta: Delta) -> None:
        expires_at = int(self._clock.now().timestamp()) + DELTA_TTL_S
        self._table.put(
            {
                **key(delta_pk(lane, claim), f"{delta.name}#{delta.off:09d}"),
                "text": {"S": delta.text},
                "expires_at": {"N": str(expires_at)},
            }
        )

    def since(self, lane: Lane, claim: int) -> list[Delta]:
        rows = self._table.query("pk = :pk", {":pk": {"S": delta_pk(lane, claim)}}, ConsistentRead=True)
        now = self._clock.now().timestamp()
        return [_read_delta(row) for row in rows if int(row["expires_at"]["N"]) > now]


def _read_delta(row: Item) -> Delta:
    name, _, off = row["sk"]["S"].rpartition("#")
    return Delta(name=name, off=int(off), text=row["text"]["S"])
