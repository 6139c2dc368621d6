"""Judges files in a separate process, which can neither open nor reach anything."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from stepline.adapters.upload.claim import Claim
from stepline.model.file.file_verdict import FileLimits, FileVerdict

logger = logging.getLogger(__name__)

JUDGE_S: Final = 30.0
"""Timeout of the process; its CPU time limit is two thirds of this."""
FAILED: Final = FileVerdict(code="preflight_error", message="the file could not be judged within its limits")

_PROGRAM: Final = Path(__file__).with_name("inspect_file.py")
_PACKAGES: Final = ("stepline", "msgspec", "PIL", "pikepdf", "resiliparse")
_KEPT: Final = ("LD_LIBRARY_PATH",)
"""The variables that an interpreter needs to start."""


class JailedPreflight:
    """Implements `Preflight`."""

    def judge(self, path: Path, *, filename: str, mime: str, limits: FileLimits) -> FileVerdict:
        claim = msgspec.json.encode(Claim(filename=filename, mime=mime, limits=limits)).decode()
        command = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), _folders(), claim]
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}  # noqa: TID251 - not a setting: see _KEPT
        try:
            with path.open("rb") as file:
                done = subprocess.run(  # noqa: S603 - our own program; it gets the bytes and the name of the file
                    command,
                    stdin=file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=kept,
                    timeout=JUDGE_S,
                    check=True,
                )
            return msgspec.json.decode(done.stdout, type=FileVerdict)
        except (subprocess.SubprocessError, msgspec.DecodeError) as error:
            logger.warning("file not judged", extra={"code": FAILED.code, "error": type(error).__name__})
            return FAILED


def _folders() -> str:
    """Return the folders from which the program imports."""
    found = (importlib.util.find_spec(name) for name in _PACKAGES)
    return ":".join(
        dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin)
    )
