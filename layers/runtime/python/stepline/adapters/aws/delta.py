"""Stored text of the running generation: one row per interval, without a condition, kept for an hour.

Noted model calls are in one partition per lane, by claim, so that one query finds those of many claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepline.adapters.aws.error import Item
from stepline.adapters.aws.table import Table, batch_sk, delta_pk, key, noted_pk
from stepline.model.usage import ModelCall
from stepline.ports.relay import DELTA_TTL_S, Delta

if TYPE_CHECKING:
    from stepline.model.ids import Lane
    from stepline.ports.clock import Clock


class DynamoDeltas:
    """A row's key has the name and zero-padded offset of its first piece; further pieces are in the row as JSON.

    Capacity is counted per row and started kilobyte, and lanes are many and short.
    """

    def __init__(self, table: Table, clock: Clock) -> None:
        """Store pieces in `table`; `clock` decides on expiry, because AWS deletes days later."""
        self._table = table
        self._clock = clock

    def put(self, lane: Lane, claim: int, *deltas: Delta) -> None:
        first, *more = deltas
        expires_at = int(self._clock.now().timestamp()) + DELTA_TTL_S
        beside: Item = {"more": {"S": msgspec.json.encode(more).decode()}} if more else {}
        self._table.put(
            {
                **key(delta_pk(lane, claim), f"{first.name}#{first.off:09d}"),
                "text": {"S": first.text},
                "expires_at": {"N": str(expires_at)},
                **beside,
            }
        )

    def note(self, lane: Lane, claim: int, call: ModelCall) -> None:
        self._table.put(
            {
                **key(noted_pk(lane), f"{batch_sk(claim)}#{call.id}"),
                "body": {"B": msgspec.json.encode(call)},
            }
        )

    def notes(self, lane: Lane, since: int) -> dict[int, list[ModelCall]]:
        rows = self._table.query(
            "pk = :pk AND sk >= :since",
            {":pk": {"S": noted_pk(lane)}, ":since": {"S": batch_sk(since)}},
            ConsistentRead=True,
        )
        noted: dict[int, list[ModelCall]] = {}
        for row in rows:
            call = msgspec.json.decode(row["body"]["B"], type=ModelCall)
            noted.setdefault(int(row["sk"]["S"].partition("#")[0]), []).append(call)
        return noted

    def since(self, lane: Lane, claim: int) -> list[Delta]:
        rows = self._table.query("pk = :pk", {":pk": {"S": delta_pk(lane, claim)}}, ConsistentRead=True)
        now = self._clock.now().timestamp()
        live = (row for row in rows if int(row["expires_at"]["N"]) > now)
        return sorted(
            (delta for row in live for delta in _read_row(row)), key=lambda one: (one.name, one.off)
        )


def _read_row(row: Item) -> list[Delta]:
    name, _, off = row["sk"]["S"].rpartition("#")
    more = msgspec.json.decode(row["more"]["S"], type=list[Delta]) if "more" in row else []
    return [Delta(name=name, off=int(off), text=row["text"]["S"]), *more]
