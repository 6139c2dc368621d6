"""Bodies in S3, each written once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import OBJECT_ABSENT, OBJECT_EXISTS, mapped, tolerated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3.client import S3Client


PIECE_BYTES = 1024 * 1024
OBJECT_HIDDEN: Final = "403"
"""What S3 says of an object that is not there to one who may not list the bucket, and of one that may not be read."""


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

    def size(self, key: str) -> int | None:
        with mapped(), tolerated(OBJECT_ABSENT, OBJECT_HIDDEN):
            return self.client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]
        return None
