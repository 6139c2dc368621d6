"""Costs as rows: a partition for each conversation."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from stepline.adapters.aws.metering.item_size import item_bytes, write_units
from stepline.adapters.aws.table import Table, cost_pk, key
from stepline.model.tenancy.consumption import InvocationCost

if TYPE_CHECKING:
    from stepline.adapters.aws.error import Item
    from stepline.model.ids import Lane

_COST: Final = msgspec.json.Decoder(InvocationCost)


class DynamoCosts:
    """A row's key has its turn, its time and a nonce. It is put once and without a condition."""

    def __init__(self, table: Table) -> None:
        """Keep rows in `table`."""
        self._table = table

    def put(self, lane: Lane, cost: InvocationCost) -> None:
        place = key(cost_pk(lane), f"{cost.turn}#{cost.at}#{secrets.token_hex(4)}")
        units = write_units(item_bytes(_item(place, cost)))
        used = replace(cost.used, write_units=cost.used.write_units + units)
        self._table.put(_item(place, replace(cost, used=used)))

    def of(self, lane: Lane, *, turn: str | None = None) -> list[InvocationCost]:
        condition, values = "pk = :pk", {":pk": {"S": cost_pk(lane)}}
        if turn is not None:
            condition, values[":turn"] = f"{condition} AND begins_with(sk, :turn)", {"S": f"{turn}#"}
        items = self._table.query(condition, values, ConsistentRead=True)
        return sorted((_COST.decode(item["body"]["B"]) for item in items), key=lambda row: row.at)


def _item(place: Item, cost: InvocationCost) -> Item:
    return {**place, "body": {"B": msgspec.json.encode(cost)}}
