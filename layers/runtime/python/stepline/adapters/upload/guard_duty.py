"""GuardDuty's malware protection: it scans each new object of the quarantine, and tags it with its finding.

Source: docs.aws.amazon.com/guardduty, "Using tag-based access control with Malware Protection for S3".
"""

from __future__ import annotations

import hashlib
import logging
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import OBJECT_ABSENT, mapped, tolerated
from stepline.errors import DependencyError, NotFoundError
from stepline.ports.upload.quarantine import Infection

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from stepline.metering.ledger import Ledger
    from stepline.ports.clock import Clock

logger = logging.getLogger(__name__)

TAG: Final = "GuardDutyMalwareScanStatus"
FINDINGS: Final[dict[str, Infection]] = {"NO_THREATS_FOUND": "clean", "THREATS_FOUND": "infected"}
"""Every other status says that the object was not scanned."""
REPLACED: Final = "REPLACED"
POLL_S: Final = 1.0


class GuardDutyScanner:
    """Implements `Scanner`. It waits for the tag, since the object's own event may arrive before it.

    A client can post to a slot again meanwhile, and the tag belongs to the newest object. So before each read of the
    tag, the object's ETag must be that of the fetched object: an object that has just replaced it has no tag yet.
    """

    def __init__(self, bucket: str, clock: Clock, *, timeout_s: float, ledger: Ledger | None = None) -> None:
        """Read tags of objects in `bucket`, for at most `timeout_s` per file; a `ledger` counts the requests."""
        self._bucket, self._clock, self._timeout_s = bucket, clock, timeout_s
        self._ledger = ledger

    @cached_property
    def client(self) -> S3Client:
        """The client, created on first use."""
        client: S3Client = connect("s3", read_timeout_s=5, signature="s3v4", ledger=self._ledger)
        return client

    def scan(self, path: Path, key: str) -> Infection:
        until_s = self._clock.monotonic_s() + self._timeout_s
        with path.open("rb") as file:
            etag = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        try:
            while not (status := self._status(key, etag)) and self._clock.monotonic_s() < until_s:
                self._clock.pause(POLL_S)
        except (DependencyError, NotFoundError) as error:
            logger.warning("file not scanned", extra={"code": error.reason})
            return "unknown"
        return FINDINGS.get(status, "unknown")

    def _status(self, key: str, etag: str) -> str:
        with mapped():
            if self._etag(key) != etag:
                return REPLACED
            tags = self.client.get_object_tagging(Bucket=self._bucket, Key=key)["TagSet"]
        return next((tag["Value"] for tag in tags if tag["Key"] == TAG), "")

    def _etag(self, key: str) -> str:
        """Return the hex MD5 of an object that was posted in one part; "" if it is gone."""
        with tolerated(OBJECT_ABSENT):
            return self.client.head_object(Bucket=self._bucket, Key=key)["ETag"].strip('"')
        return ""
