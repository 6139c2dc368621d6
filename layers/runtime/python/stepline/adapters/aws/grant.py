"""Rights to single objects of the bucket: URLs that S3 has to find signed by us."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.model.program.handover import Grant

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


class S3Grants:
    """Nothing is asked of S3. A grant ends with the credentials it was signed with, if they end before it does."""

    def __init__(self, bucket: str) -> None:
        """Give rights to the objects of `bucket`."""
        self._bucket = bucket

    @cached_property
    def client(self) -> S3Client:
        """The client, made on first use.

        Named outright, the region's own endpoint stays in the URLs: botocore would sign the global one, which is
        beyond a gateway endpoint and answers a young bucket with a redirect.
        """
        regional = connect("s3", read_timeout_s=20, signature="s3v4").meta.endpoint_url
        client: S3Client = connect("s3", read_timeout_s=20, signature="s3v4", endpoint=regional)
        return client

    def read(self, key: str, *, ttl_s: int) -> Grant:
        with mapped():
            url = self.client.generate_presigned_url(
                "get_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=ttl_s
            )
        return Grant(url=url)

    def write(self, key: str, *, mime: str, ttl_s: int) -> Grant:
        params = {"Bucket": self._bucket, "Key": key, "ContentType": mime, "IfNoneMatch": "*"}
        with mapped():
            url = self.client.generate_presigned_url("put_object", Params=params, ExpiresIn=ttl_s)
        return Grant(url=url, headers={"Content-Type": mime, "If-None-Match": "*"})
