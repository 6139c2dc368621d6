"""Temporary folders that programs under another uid may reach."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a temporary folder that every uid may enter.

    It is not below pytest's own folder: each pytest that starts on the machine closes that one to other uids again.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
