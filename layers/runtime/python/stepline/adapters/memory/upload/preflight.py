"""Checks of files, in this process."""

from __future__ import annotations

from pathlib import Path

from stepline.model.file.file_verdict import FileLimits, FileVerdict
from stepline.preflight.judge_file import judge_file


class MemoryPreflight:
    """Implements `Preflight` without a jail."""

    def judge(self, path: Path, *, filename: str, mime: str, limits: FileLimits) -> FileVerdict:
        return judge_file(path, filename=filename, mime=mime, limits=limits)
