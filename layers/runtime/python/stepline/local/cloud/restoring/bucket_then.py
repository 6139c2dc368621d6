"""The bucket at an earlier time: each object that changed since then gets back the version that it had.

Bodies are named by their content and are only undeleted. Objects of turns that the table has lost are deleted: they would be
mistaken for those of a new turn's calls, and would never be erased. Objects that changed after `until` are not touched, nor
are tombstones: they list the later deletions. Source: docs/how-to/restore.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from stepline.errors import DependencyError
from stepline.local.cloud.account import Account
from stepline.model.base import Value

PREFIXES: Final = ("att/", "exec/", "git/", "mem/", "out/", "seg/", "store/")
"""The objects that a log, a turn, a user's memory or a bundle names."""
PER_DELETE: Final = 1_000
"""The most versions that one request deletes, by S3's limits."""


class Seen(Value):
    """One version of an object, or a delete marker."""

    key: str
    version: str
    at: datetime
    is_marker: bool = False


class Change(Value):
    """A change to one object: versions to delete, `""` for a delete marker on top, or the version to put on top."""

    key: str
    deleted: tuple[str, ...] = ()
    copied: str = ""


def bring_back(account: Account, bucket: str, *, at: datetime, until: datetime) -> Counter[str]:
    """Restore the bucket as it was `at`, but for writes after `until`; return the number of objects by their change.

    Raises DependencyError `cloud_deploy`.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    s3 = account.client("s3")
    try:
        changes = [
            change
            for prefix in PREFIXES
            for _, versions in groupby(_read(s3, bucket, prefix), attrgetter("key"))
            if (change := plan_change(list(versions), at=at, until=until))
        ]
        return _apply(s3, bucket, changes)
    except (BotoCoreError, ClientError) as error:
        raise DependencyError(
            f"{bucket} cannot be restored: {error}; this needs s3:ListBucketVersions, GetObjectVersion, PutObject,"
            " DeleteObject and DeleteObjectVersion",
            code="cloud_deploy",
        ) from error


def plan_change(versions: Iterable[Seen], *, at: datetime, until: datetime) -> Change | None:
    """Return how an object becomes what it was, from all its versions; None if it is that, or was written since."""
    newest, *_ = ordered = sorted(versions, key=attrgetter("at"), reverse=True)
    if not at < newest.at <= until:
        return None
    since = [one for one in ordered if one.at > at]
    then = next((one for one in ordered if one.at <= at), None)
    if then is None or then.is_marker:
        return None if newest.is_marker else Change(key=newest.key, deleted=("",))
    if all(one.is_marker for one in since):
        return Change(key=newest.key, deleted=tuple(one.version for one in since))
    return Change(key=newest.key, copied=then.version)


def _read(s3: Any, bucket: str, prefix: str) -> Iterator[Seen]:
    """Yield versions and markers, those of one object behind each other."""
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        found = [
            *(_seen(one) for one in page.get("Versions", [])),
            *(_seen(one, is_marker=True) for one in page.get("DeleteMarkers", [])),
        ]
        yield from sorted(found, key=attrgetter("key"))


def _seen(one: Mapping[str, Any], *, is_marker: bool = False) -> Seen:
    return Seen(key=one["Key"], version=one["VersionId"], at=one["LastModified"], is_marker=is_marker)


def _apply(s3: Any, bucket: str, changes: Iterable[Change]) -> Counter[str]:
    counts: Counter[str] = Counter()
    doomed: list[dict[str, str]] = []
    for change in changes:
        if change.copied:
            source = {"Bucket": bucket, "Key": change.key, "VersionId": change.copied}
            s3.copy_object(Bucket=bucket, Key=change.key, CopySource=source)
            counts["replaced"] += 1
            continue
        counts["deleted" if change.deleted == ("",) else "undeleted"] += 1
        doomed += [
            {"Key": change.key, "VersionId": version} if version else {"Key": change.key}
            for version in change.deleted
        ]
    for start in range(0, len(doomed), PER_DELETE):
        some = doomed[start : start + PER_DELETE]
        refused = s3.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True}).get("Errors")
        if refused:
            raise DependencyError(
                f"{bucket}: {refused[0]['Key']} could not be restored: {refused[0]['Message']}",
                code="cloud_deploy",
            )
    return counts
