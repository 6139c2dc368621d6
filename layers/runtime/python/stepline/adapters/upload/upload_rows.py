"""Uploads as rows of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepline.adapters.aws.error import CONDITION_FAILED, mapped, tolerated
from stepline.adapters.aws.log import MESSAGE_TTL_S
from stepline.adapters.aws.table import Table, key, upload_pk
from stepline.errors import NotFoundError
from stepline.model.file.upload_slot import Upload

if TYPE_CHECKING:
    from stepline.model.ids import Lane

KEPT_S: Final = MESSAGE_TTL_S
"""How long AWS keeps a row after its posting ends: a message that names it may be sent again until then."""

_UPLOAD: Final = msgspec.json.Decoder(Upload)


class DynamoUploads:
    """Implements `Uploads`: an attribute marks a row as final, and a write requires its absence."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def begin(self, lane: Lane, upload: Upload) -> None:
        expires_at = {"N": str(upload.until_s + KEPT_S)}
        self._table.put({**key(upload_pk(lane), upload.upload_id), **_body(upload), "expires_at": expires_at})

    def get(self, lane: Lane, upload_id: str) -> Upload | None:
        row = self._table.get(upload_pk(lane), upload_id, consistent=True)
        return _UPLOAD.decode(row["body"]["B"]) if row else None

    def settle(self, lane: Lane, upload: Upload) -> Upload:
        final = ", is_final = :yes" if upload.is_final else ""
        values = {":body": _body(upload)["body"], **({":yes": {"BOOL": True}} if final else {})}
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(upload_pk(lane), upload.upload_id),
                UpdateExpression=f"SET body = :body{final}",
                ConditionExpression="attribute_exists(pk) AND attribute_not_exists(is_final)",
                ExpressionAttributeValues=values,
            )
            return upload
        if (kept := self.get(lane, upload.upload_id)) is None:
            raise NotFoundError("no such upload")
        return kept


def _body(upload: Upload) -> dict[str, dict[str, bytes]]:
    return {"body": {"B": msgspec.json.encode(upload)}}
