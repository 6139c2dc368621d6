"""Temporary folders that programs under another uid may reach."""

from __future__ import annotations

from pathlib import Path


def open_parents(path: Path) -> None:
    """Let every uid pass the folders of pytest above a temporary one; they are closed to others."""
    for parent in path.parents:
        if parent.name.startswith(("pytest-", "popen-")):
            parent.chmod(0o755)
