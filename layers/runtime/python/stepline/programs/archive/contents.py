"""Inspect an archive that a program wrote, without trusting its headers.

Everything is inflated and counted; nothing is kept or unpacked. A member is judged by its name and kind. If two
readers could see different contents, or this one could see less than another, the archive is unreadable.
Source: docs/reference/execution.md#archives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from itertools import islice
from pathlib import Path
from typing import Final

from stepline.programs.archive.member import ArchiveLimits, ArchiveProblem, Budget, Unfit
from stepline.programs.archive.tar import inspect_gzip, inspect_tar, raw_chunks
from stepline.programs.archive.zip import inspect_zip

PROBLEMS_MAX: Final = 20

_LIMITS: Final = ArchiveLimits()
_ZIP: Final = ("application/zip", "application/x-zip-compressed")
_TAR: Final = ("application/x-tar",)
_GZIP: Final = ("application/gzip", "application/x-gzip", "application/x-gtar")


def inspect_archive(path: Path, *, mime: str, limits: ArchiveLimits = _LIMITS) -> list[ArchiveProblem]:
    """Return the reasons to refuse an archive, at most `PROBLEMS_MAX`; none if it is valid or not an archive.

    `path` is in a folder that only we write; its name is ignored, `mime` is its claimed type. A gzip file that holds a
    tar archive is judged as one. An office document can be inspected as `application/zip`. Raises OSError.
    """
    budget = Budget(limits, path.stat().st_size)
    with contextlib.closing(_problems(path, mime.partition(";")[0].strip().lower(), budget, limits)) as found:
        return list(islice(found, PROBLEMS_MAX))


def _problems(
    path: Path, mime: str, budget: Budget, limits: ArchiveLimits
) -> Generator[ArchiveProblem, None, None]:
    try:
        if mime in _ZIP:
            yield from inspect_zip(path, budget, limits)
        elif mime in _TAR:
            yield from inspect_tar(raw_chunks(path, budget), budget)
        elif mime in _GZIP:
            yield from inspect_gzip(path, budget)
        else:
            return
    except Unfit as unfit:
        yield unfit.problem
        return
    if not budget.entries:
        yield ArchiveProblem(code="archive_empty", message="it holds nothing")
