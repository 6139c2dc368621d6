"""Digests of the values that a process was started with, to find those that another start would change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from stepline.local.stage.deployed import read_json, write_private


class Fingerprint:
    """A file with a digest of each named value. The values may be keys."""

    def __init__(self, path: Path) -> None:
        """Set the path; nothing is read."""
        self._path = path

    def take(self, values: Mapping[str, str]) -> None:
        """Save the digests of these values, and of no others."""
        write_private(self._path, json.dumps(_digests(values), indent=1).encode())

    def changed(self, values: Mapping[str, str]) -> list[str]:
        """Return the names whose values differ from the saved ones, including new and missing names.

        If nothing is saved, only that is reported.
        """
        if not self._path.exists():
            return ["everything"]
        before, now = read_json(self._path), _digests(values)
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _digests(values: Mapping[str, str]) -> dict[str, str]:
    return {name: hashlib.sha256(f"{name}={value}".encode()).hexdigest() for name, value in values.items()}
