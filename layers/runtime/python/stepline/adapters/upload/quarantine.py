"""Quarantine: a prefix of the bucket that clients post to, one object per slot.

Source: docs.aws.amazon.com/AmazonS3, "POST Object" and "POST policy".
"""

from __future__ import annotations

from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.errors import NotFoundError
from stepline.ports.upload.quarantine import PostGrant

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from stepline.metering.ledger import Ledger

PIECE_BYTES = 1024 * 1024
LENGTH = "content-length-range"


class S3Quarantine:
    """Implements `Quarantine`. A grant ends with the credentials that signed it, if they expire first."""

    def __init__(self, bucket: str, *, ledger: Ledger | None = None) -> None:
        """Let clients post to `bucket`; with a `ledger`, our own requests are counted there."""
        self._bucket = bucket
        self._ledger = ledger

    @cached_property
    def client(self) -> S3Client:
        """The client, created on first use."""
        client: S3Client = connect(
            "s3", read_timeout_s=20, signature="s3v4", regional_hosts=True, ledger=self._ledger
        )
        return client

    def allow(self, key: str, *, mime: str, size_bytes: int, ttl_s: int) -> PostGrant:
        """Return the right; S3 refuses every field that it does not state."""
        fields = {"Content-Type": mime, "success_action_status": str(HTTPStatus.CREATED.value)}
        conditions = [*({name: value} for name, value in fields.items()), [LENGTH, size_bytes, size_bytes]]
        with mapped():
            grant = self.client.generate_presigned_post(
                Bucket=self._bucket, Key=key, Fields=fields, Conditions=conditions, ExpiresIn=ttl_s
            )
        return PostGrant(url=grant["url"], fields=grant["fields"])

    def fetch(self, key: str, into: Path, *, max_bytes: int) -> int | None:
        try:
            with mapped():
                body = self.client.get_object(Bucket=self._bucket, Key=key)["Body"]
                with into.open("wb") as file:
                    for piece in body.iter_chunks(PIECE_BYTES):
                        file.write(piece)
                        if file.tell() > max_bytes:
                            break
                    body.close()
                    return file.tell()
        except NotFoundError:
            return None

    def remove(self, key: str) -> None:
        with mapped():
            self.client.delete_object(Bucket=self._bucket, Key=key)
