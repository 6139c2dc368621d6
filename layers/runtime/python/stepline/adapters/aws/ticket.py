"""Tickets as rows keyed by their hash: read access to the table does not yield a ticket."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.aws.error import mapped
from stepline.adapters.aws.table import HEAD, Table, key, ticket_pk
from stepline.errors import AuthError
from stepline.ports.channel import Principal
from stepline.ports.identity import ticket_ends_at

if TYPE_CHECKING:
    from stepline.ports.clock import Clock

TICKET_BYTES: Final = 32

_PRINCIPAL: Final = msgspec.json.Decoder(Principal)


class DynamoTickets:
    """Redeeming is deleting: the one delete that finds the row returns its content."""

    def __init__(self, table: Table, clock: Clock) -> None:
        """Keep rows in `table`; `clock` decides what has expired, because AWS deletes days later."""
        self._table = table
        self._clock = clock

    def issue(self, principal: Principal) -> str:
        ends_at = ticket_ends_at(principal, self._clock.now().timestamp())
        ticket = secrets.token_urlsafe(TICKET_BYTES)
        body = {"body": {"B": msgspec.json.encode(principal)}, "expires_at": {"N": str(ends_at)}}
        self._table.put({**key(ticket_pk(ticket), HEAD), **body})
        return ticket

    def redeem(self, ticket: str) -> Principal:
        with mapped():
            answer = self._table.call(
                "delete_item",
                TableName=self._table.name,
                Key=key(ticket_pk(ticket), HEAD),
                ReturnValues="ALL_OLD",
            )
        row = answer.get("Attributes")
        if not row or int(row["expires_at"]["N"]) <= self._clock.now().timestamp():
            raise AuthError("the ticket is not valid")
        return _PRINCIPAL.decode(row["body"]["B"])
