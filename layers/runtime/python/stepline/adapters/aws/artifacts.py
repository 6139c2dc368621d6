"""Artifacts in S3, each written once, except for logs."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import OBJECT_ABSENT, OBJECT_EXISTS, mapped, tolerated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from mypy_boto3_s3.client import S3Client

    from stepline.metering.ledger import Ledger


PIECE_BYTES = 1024 * 1024
READERS: Final = 8
"""Objects read at once; fewer than the connections that a client keeps open."""
OBJECT_HIDDEN: Final = "403"
"""S3's status for an object that may not be read, and for a missing one if the bucket may not be listed."""


class S3Artifacts:
    """Objects of one bucket. A put whose answer was lost is reported as written by another process."""

    def __init__(self, bucket: str, *, ledger: Ledger | None = None) -> None:
        """Store bodies in `bucket`; with a `ledger`, requests are counted there."""
        self._bucket = bucket
        self._ledger = ledger

    @cached_property
    def client(self) -> S3Client:
        """The client, created on first use."""
        client: S3Client = connect("s3", read_timeout_s=20, signature="s3v4", ledger=self._ledger)
        return client

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        with mapped(), tolerated(OBJECT_EXISTS):
            self.client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType=mime, IfNoneMatch="*")
            return True
        return False

    def replace(self, key: str, body: bytes, *, mime: str) -> None:
        with mapped():
            self.client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType=mime)

    def get(self, key: str) -> bytes:
        with mapped():
            return self.client.get_object(Bucket=self._bucket, Key=key)["Body"].read()

    def stream(self, key: str) -> Iterator[bytes]:
        with mapped():
            body = self.client.get_object(Bucket=self._bucket, Key=key)["Body"]
            yield from body.iter_chunks(PIECE_BYTES)

    def heads(self, keys: Sequence[str], *, max_bytes: int) -> Iterator[bytes]:
        if not keys:
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - for a search through many objects

        client = self.client
        ahead: deque[Future[bytes]] = deque()
        pool = ThreadPoolExecutor(min(READERS, len(keys)), thread_name_prefix="read")
        try:
            for key in keys:
                ahead.append(pool.submit(self._head, client, key, max_bytes))
                if len(ahead) > READERS:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _head(self, client: S3Client, key: str, max_bytes: int) -> bytes:
        with mapped():
            body = client.get_object(Bucket=self._bucket, Key=key)["Body"]
            try:
                return body.read(max_bytes)
            finally:
                body.close()

    def size(self, key: str) -> int | None:
        with mapped(), tolerated(OBJECT_ABSENT, OBJECT_HIDDEN):
            return self.client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]
        return None
