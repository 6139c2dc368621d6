"""Subscriptions as rows, which expire after a websocket's maximum lifetime, or earlier with its token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.aws.error import Item, mapped
from stepline.adapters.aws.table import (
    HEAD,
    Table,
    conversation_pk,
    heard_sk,
    key,
    socket_key,
    split_heard,
    user_pk,
)
from stepline.model.ids import Lane
from stepline.ports.channel import SUBSCRIPTION_TTL_S, Audience, Principal

if TYPE_CHECKING:
    from stepline.ports.clock import Clock


_PRINCIPAL: Final = msgspec.json.Decoder(Principal)


class DynamoSubscriptions:
    """Subscriptions of one table. Each is two rows: under its conversation, and under its user.

    A user's rows cover all conversations and the feed, so one query finds every connection that gets a change reported
    in the feed, and also a connection's rows for cleanup.

    A row names its table. In a table restored to an earlier time, no old row is valid: its client may have seen more
    than the table has, and learns that when it connects again.
    """

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
        item = self._table.get(socket_key(connection), HEAD, consistent=True)
        if item is None:
            return  # the other rows of an expired connection expire, too
        principal = _PRINCIPAL.decode(item["body"]["B"])
        for conversation in self._subjects_of(connection, principal):
            # The user's row is deleted last, so that an interrupted disconnect can be repeated.
            if conversation:
                lane = Lane(tenant=principal.tenant, project=principal.project, conversation=conversation)
                self._table.delete(conversation_pk(lane), socket_key(connection))
            self._table.delete(_user_pk(principal), heard_sk(connection, conversation))
        self._table.delete(socket_key(connection), HEAD)

    def renew(self, connection: str, principal: Principal) -> None:
        self.connect(connection, principal)
        for conversation in self._subjects_of(connection, principal):
            if not conversation:
                self.watch(connection, principal)
                continue
            lane = Lane(tenant=principal.tenant, project=principal.project, conversation=conversation)
            self.subscribe(lane, connection, principal.expires_at, principal.user)

    def subscribe(self, lane: Lane, connection: str, until_s: int, user: str) -> None:
        ends_at = min(self._ends_at(), until_s)
        owner = user_pk(lane.tenant, lane.project, user)
        self._put(owner, heard_sk(connection, lane.conversation), {}, ends_at)
        self._put(conversation_pk(lane), socket_key(connection), {"user": {"S": user}}, ends_at)

    def watch(self, connection: str, principal: Principal) -> None:
        ends_at = min(self._ends_at(), principal.expires_at)
        self._put(_user_pk(principal), heard_sk(connection), {}, ends_at)

    def drop(self, lane: Lane, connection: str, *, watcher: str = "") -> None:
        with mapped():
            answer = self._table.call(
                "delete_item",
                TableName=self._table.name,
                Key=key(conversation_pk(lane), socket_key(connection)),
                ReturnValues="ALL_OLD",
            )
        # A row of an earlier release names no user; its second row expires.
        if user := answer.get("Attributes", {}).get("user"):
            owner = user_pk(lane.tenant, lane.project, user["S"])
            self._table.delete(owner, heard_sk(connection, lane.conversation))
        if watcher:
            self._table.delete(user_pk(lane.tenant, lane.project, watcher), heard_sk(connection))

    def listeners(self, lane: Lane) -> list[str]:
        rows = self._hearing(conversation_pk(lane), socket_key(""))
        return [row["sk"]["S"].removeprefix(socket_key("")) for row in rows if self._is_alive(row)]

    def connections(self, tenant: str, project: str, user: str) -> list[str]:
        rows = self._hearing(user_pk(tenant, project, user), socket_key(""))
        return sorted({split_heard(row["sk"]["S"])[0] for row in rows})

    def audience(self, lane: Lane, user: str) -> Audience:
        found = Audience([], [])
        for row in self._hearing(user_pk(lane.tenant, lane.project, user), socket_key("")):
            connection, conversation = split_heard(row["sk"]["S"])
            if not self._is_alive(row):
                continue
            if not conversation:
                found.watchers.append(connection)
            elif conversation == lane.conversation:
                found.listeners.append(connection)
        return found

    def _subjects_of(self, connection: str, principal: Principal) -> list[str]:
        """Return the subscriptions of a connection: names of conversations, and "" for the feed."""
        rows = self._hearing(_user_pk(principal), heard_sk(connection))
        return [split_heard(row["sk"]["S"])[1] for row in rows]

    def _hearing(self, pk: str, prefix: str) -> Iterator[Item]:
        asked = {":pk": {"S": pk}, ":socket": {"S": prefix}}
        return self._table.query("pk = :pk AND begins_with(sk, :socket)", asked, ConsistentRead=True)

    def _ends_at(self) -> int:
        return int(self._clock.now().timestamp()) + SUBSCRIPTION_TTL_S

    def _put(self, pk: str, sk: str, attributes: Item, ends_at: int) -> None:
        row = {**key(pk, sk), **attributes, "in_table": {"S": self._table.name}}
        self._table.put({**row, "expires_at": {"N": str(ends_at)}})

    def _is_alive(self, item: Item) -> bool:
        # A row of an earlier release does not say its table.
        moved = item.get("in_table", {"S": self._table.name})["S"] != self._table.name
        return not moved and int(item["expires_at"]["N"]) > self._clock.now().timestamp()


def _user_pk(principal: Principal) -> str:
    return user_pk(principal.tenant, principal.project, principal.user)
