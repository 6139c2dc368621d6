"""Subscriptions as rows, which expire with a websocket's longest life or earlier with its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.aws.error import Item
from stepline.adapters.aws.table import HEAD, Table, conversation_pk, key, socket_key
from stepline.ports.channel import SUBSCRIPTION_TTL_S, Principal

if TYPE_CHECKING:
    from stepline.model.ids import Lane
    from stepline.ports.clock import Clock


_PRINCIPAL: Final = msgspec.json.Decoder(Principal)


class DynamoSubscriptions:
    """A subscription is two rows: under the conversation to post by, under the connection to clean up by."""

    def __init__(self, table: Table, clock: Clock) -> None:
        """Store rows in `table`; `clock` decides on expiry, because AWS deletes days later."""
        self._table = table
        self._clock = clock

    def connect(self, connection: str, principal: Principal) -> None:
        body = {"body": {"B": msgspec.json.encode(principal)}}
        self._put(socket_key(connection), HEAD, body, self._ends_at())

    def principal(self, connection: str) -> Principal | None:
        item = self._table.get(socket_key(connection), HEAD, consistent=True)
        return _PRINCIPAL.decode(item["body"]["B"]) if item and self._is_alive(item) else None

    def disconnect(self, connection: str) -> None:
        for sk in self._rows(connection):
            # The conversation's row is deleted first, so that an interrupted disconnect can be repeated.
            if sk != HEAD:
                self._table.delete(sk, socket_key(connection))
            self._table.delete(socket_key(connection), sk)

    def renew(self, connection: str, principal: Principal) -> None:
        self.connect(connection, principal)
        for sk in self._rows(connection):
            if sk != HEAD:
                self._listen(sk, connection, principal.expires_at)

    def subscribe(self, lane: Lane, connection: str, until_s: int) -> None:
        self._listen(conversation_pk(lane), connection, until_s)

    def drop(self, lane: Lane, connection: str) -> None:
        self._table.delete(conversation_pk(lane), socket_key(connection))
        self._table.delete(socket_key(connection), conversation_pk(lane))

    def listeners(self, lane: Lane) -> list[str]:
        rows = self._table.query(
            "pk = :pk AND begins_with(sk, :socket)",
            {":pk": {"S": conversation_pk(lane)}, ":socket": {"S": socket_key("")}},
            ConsistentRead=True,
        )
        return [row["sk"]["S"].removeprefix(socket_key("")) for row in rows if self._is_alive(row)]

    def _rows(self, connection: str) -> list[str]:
        rows = self._table.query("pk = :pk", {":pk": {"S": socket_key(connection)}}, ConsistentRead=True)
        return [row["sk"]["S"] for row in rows]

    def _listen(self, conversation: str, connection: str, until_s: int) -> None:
        ends_at = min(self._ends_at(), until_s)
        self._put(socket_key(connection), conversation, {}, ends_at)
        self._put(conversation, socket_key(connection), {}, ends_at)

    def _ends_at(self) -> int:
        return int(self._clock.now().timestamp()) + SUBSCRIPTION_TTL_S

    def _put(self, pk: str, sk: str, attributes: Item, ends_at: int) -> None:
        self._table.put({**key(pk, sk), **attributes, "expires_at": {"N": str(ends_at)}})

    def _is_alive(self, item: Item) -> bool:
        return int(item["expires_at"]["N"]) > self._clock.now().timestamp()
