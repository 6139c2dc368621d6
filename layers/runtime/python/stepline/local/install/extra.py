"""The packages of the extra `local`, which the local stage needs."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Final

from stepline.errors import DependencyError

EXTRA: Final = "stepline[local]"
_MARKER: Final = "extra == 'local'"
_NAME: Final = re.compile(r"[\w.-]+")


def check_extra() -> None:
    """Raise DependencyError `needs_extra` unless every package of the extra is installed."""
    if missing := find_missing():
        raise DependencyError(
            f"not installed: {', '.join(missing)}; install them with: pip install '{EXTRA}'",
            code="needs_extra",
        )


def find_missing() -> list[str]:
    """Return the packages of the extra that are not installed; none if the library is used without metadata."""
    try:
        required = metadata.requires("stepline") or []
    except metadata.PackageNotFoundError:
        return []
    packages = [text for text in required if text.partition(";")[2].strip().replace('"', "'") == _MARKER]
    return [found[0] for text in packages if (found := _NAME.match(text)) and not is_installed(found[0])]


def is_installed(package: str) -> bool:
    """Return True if this environment has a package."""
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True
