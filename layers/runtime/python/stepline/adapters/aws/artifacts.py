"""Bodies in S3, each written once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import OBJECT_EXISTS, mapped, tolerated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3.client import S3Client


PIECE_BYTES = 1024 * 1024


class S3Artifacts:
    """Objects of one bucket. A put that was applied but whose answer was lost says that somebody else wrote it."""

    def __init__(self, bucket: str) -> None:
        """Keep bodies in `bucket`."""
        self._bucket = bucket

    @cached_property
    def client(self) -> S3Client:
        """The client, made on first use."""
        client: S3Client = connect("s3", read_timeout_s=20, signature="s3v4")
        return client

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        with mapped(), tolerated(OBJECT_EXISTS):
            self.client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType=mime, IfNoneMatch="*")
            return True
        return False

    def get(self, key: str) -> bytes:
        with mapped():
            return self.client.get_object(Bucket=self._bucket, Key=key)["Body"].read()

    def stream(self, key: str) -> Iterator[bytes]:
        with mapped():
            body = self.client.get_object(Bucket=self._bucket, Key=key)["Body"]
            yield from body.iter_chunks(PIECE_BYTES)
