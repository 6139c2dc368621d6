"""Grants for single objects of the bucket: presigned URLs of S3."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import mapped
from stepline.model.program.handover import ObjectGrant

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from stepline.model.file.served_form import ServedForm


class S3Grants:
    """No request is made to S3. A grant ends with the credentials that signed it, if they expire first."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    @cached_property
    def client(self) -> S3Client:
        """The client, created on first use."""
        client: S3Client = connect("s3", read_timeout_s=20, signature="s3v4", regional_hosts=True)
        return client

    def read(self, key: str, *, ttl_s: int) -> ObjectGrant:
        return ObjectGrant(url=self._url("get_object", key, ttl_s))

    def serve(self, key: str, form: ServedForm, *, ttl_s: int) -> ObjectGrant:
        answered = {
            "ResponseContentType": form.mime,
            "ResponseContentDisposition": form.disposition,
            "ResponseCacheControl": "private, no-store",
        }
        return ObjectGrant(url=self._url("get_object", key, ttl_s, **answered))

    def write(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        url = self._url("put_object", key, ttl_s, ContentType=mime, IfNoneMatch="*")
        return ObjectGrant(url=url, headers={"Content-Type": mime, "If-None-Match": "*"})

    def rewrite(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        url = self._url("put_object", key, ttl_s, ContentType=mime)
        return ObjectGrant(url=url, headers={"Content-Type": mime})

    def _url(self, operation: str, key: str, ttl_s: int, **signed: str) -> str:
        params = {"Bucket": self._bucket, "Key": key, **signed}
        with mapped():
            url: str = self.client.generate_presigned_url(operation, Params=params, ExpiresIn=ttl_s)
        return url
