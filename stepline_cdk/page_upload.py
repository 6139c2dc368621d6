"""The function that uploads the chat page: files from the deployment's archives, and values known only at deployment.

It imports nothing but the runtime. A custom resource calls it for every change of the page or of its addresses.
"""

import hashlib
import io
import json
import urllib.request
import zipfile
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import boto3

CONFIG, INDEX, ASSETS = "config.json", "index.html", "assets/"
TYPES = {
    "css": "text/css; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "gif": "image/gif",
    "html": "text/html; charset=utf-8",
    "ico": "image/vnd.microsoft.icon",
    "jpg": "image/jpeg",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "wasm": "application/wasm",
    "webmanifest": "application/manifest+json",
    "webp": "image/webp",
    "woff2": "font/woff2",
}
UPLOAD_LONGEST = timedelta(hours=1)


def handler(event: dict[str, Any], context: object) -> None:  # noqa: ARG001 - the runtime's signature
    """Upload the page, or delete it, and answer CloudFormation."""
    properties = event["ResourceProperties"]
    try:
        if event["RequestType"] == "Delete":
            _empty(properties["Bucket"])
        else:
            _publish(properties)
    except Exception as error:
        # Without an answer CloudFormation would wait for its timeout.
        _answer(event, "FAILED", f"the page was not uploaded: {error}")
        raise
    _answer(event, "SUCCESS")


def _publish(properties: dict[str, Any]) -> None:
    """Upload every file, the index last, and delete those of former releases."""
    s3, bucket = boto3.client("s3"), properties["Bucket"]
    before = {found["Key"]: found["LastModified"] for found in _listed(s3, bucket)}
    mark = _mark(properties)
    files = {
        source["Prefix"] + name: body + mark if name.endswith(".html") else body
        for source in properties["Sources"]
        for name, body in _unpacked(s3, source)
    }
    files[CONFIG] = properties["Config"].encode()
    index = files.pop(INDEX)
    for key, body in files.items():
        _put(s3, properties, key, body)
    # The index is what makes a release; its metadata are the hosts of its policy.
    _put(s3, properties, INDEX, index, Metadata={"connect": properties["Connect"]})
    _delete(s3, bucket, find_stale(before, {INDEX, *files}))


def find_stale(before: Mapping[str, datetime], released: Collection[str]) -> list[str]:
    """Return the objects to delete, of those `before` by the times of their uploads, when a release is uploaded.

    Assets of the release that was live until now stay: an open page still loads them.
    """
    live_since = before[INDEX] - UPLOAD_LONGEST if INDEX in before else None
    return [
        key
        for key, uploaded in before.items()
        if key not in released and not (key.startswith(ASSETS) and live_since and uploaded >= live_since)
    ]


def _mark(properties: dict[str, Any]) -> bytes:
    """Return a comment for documents that differs with their headers.

    Without it a browser, and CloudFront, would get 304 for an unchanged document, and keep its former headers.
    """
    headers = properties["Headers"] + properties["Connect"]
    return f"<!-- headers {hashlib.sha256(headers.encode()).hexdigest()[:16]} -->\n".encode()


def _unpacked(s3: Any, source: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    body = s3.get_object(Bucket=source["Bucket"], Key=source["Key"])["Body"].read()
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                yield entry.filename, archive.read(entry)


def _put(s3: Any, properties: dict[str, Any], key: str, body: bytes, **more: Any) -> None:
    s3.put_object(
        Bucket=properties["Bucket"],
        Key=key,
        Body=body,
        ContentType=TYPES.get(key.rpartition(".")[2].lower(), "application/octet-stream"),
        CacheControl=properties["CacheAssets" if key.startswith(ASSETS) else "CacheOthers"],
        **more,
    )


def _empty(bucket: str) -> None:
    s3 = boto3.client("s3")
    try:
        _delete(s3, bucket, [found["Key"] for found in _listed(s3, bucket)])
    except s3.exceptions.NoSuchBucket:
        return


def _listed(s3: Any, bucket: str) -> Iterator[dict[str, Any]]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        yield from page.get("Contents", ())


def _delete(s3: Any, bucket: str, keys: list[str]) -> None:
    for at in range(0, len(keys), 1000):
        doomed = [{"Key": key} for key in keys[at : at + 1000]]
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": doomed, "Quiet": True})
        if refused := done.get("Errors"):
            raise RuntimeError(f"{refused[0]['Key']}: {refused[0]['Message']}")


def _answer(event: dict[str, Any], status: str, reason: str = "") -> None:
    body = {
        "Status": status,
        "Reason": reason,
        # Of another bucket the former one is emptied.
        "PhysicalResourceId": event["ResourceProperties"]["Bucket"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's own address
        event["ResponseURL"], data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
    )
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - as above
