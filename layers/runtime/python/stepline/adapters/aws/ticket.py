"""Tickets as rows keyed by their hash: read access to the table does not reveal a ticket.

A ticket begins with the hash of its holder, which is the key of all of a person's rows when they are erased.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.aws.error import mapped
from stepline.adapters.aws.table import Table, key, ticket_pk, ticket_sk
from stepline.errors import AuthError
from stepline.model.ids import PERSON_CHARS, person
from stepline.ports.channel import Principal
from stepline.ports.identity import ticket_ends_at

if TYPE_CHECKING:
    from stepline.adapters.aws.error import Item
    from stepline.ports.clock import Clock

TICKET_BYTES: Final = 32

_PRINCIPAL: Final = msgspec.json.Decoder(Principal)


class DynamoTickets:
    """Redeems a ticket by deleting it: the one delete that finds the row returns its content."""

    def __init__(self, table: Table, clock: Clock) -> None:
        """Keep rows in `table`; `clock` decides which rows have expired, because AWS deletes days later."""
        self._table = table
        self._clock = clock

    def issue(self, principal: Principal) -> str:
        ends_at = ticket_ends_at(principal, self._clock.now().timestamp())
        holder = person(principal.tenant, principal.project, principal.user)
        ticket = f"{holder}{secrets.token_urlsafe(TICKET_BYTES)}"
        body = {"body": {"B": msgspec.json.encode(principal)}, "expires_at": {"N": str(ends_at)}}
        self._table.put({**_key(ticket), **body})
        return ticket

    def redeem(self, ticket: str) -> Principal:
        with mapped():
            answer = self._table.call(
                "delete_item",
                TableName=self._table.name,
                Key=_key(ticket),
                ReturnValues="ALL_OLD",
            )
        row = answer.get("Attributes")
        if not row or int(row["expires_at"]["N"]) <= self._clock.now().timestamp():
            raise AuthError("the ticket is not valid")
        return _PRINCIPAL.decode(row["body"]["B"])

    def void(self, tenant: str, project: str, user: str) -> None:
        pk = ticket_pk(person(tenant, project, user))
        for row in self._table.query("pk = :pk", {":pk": {"S": pk}}, ConsistentRead=True):
            self._table.delete(pk, row["sk"]["S"])


def _key(ticket: str) -> Item:
    return key(ticket_pk(ticket[:PERSON_CHARS]), ticket_sk(ticket))
