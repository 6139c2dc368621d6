"""The desktop of this machine, if somebody sits at one: it opens addresses in a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
_ELSEWHERE: Final = ("CI", "SSH_CONNECTION")


def find_opener(variables: Mapping[str, str], *, platform: str, on_terminal: bool) -> str:
    """Return the command that opens an address, "" where nobody would see it: in a pipe, in CI, or over SSH."""
    if not on_terminal or any(variables.get(name) for name in _ELSEWHERE):
        return ""
    if platform == "darwin":
        return shutil.which("open") or ""
    shown = any(variables.get(name) for name in _DISPLAYS)
    return (shutil.which("xdg-open", path=variables.get("PATH")) or "") if shown else ""


def open_address(url: str) -> bool:
    """Open an address in the browser if there is a desktop; return False without one. Nobody waits for the browser."""
    here = os.environ  # noqa: TID251 - the desktop's variables, no settings of ours
    opener = find_opener(here, platform=sys.platform, on_terminal=sys.stdout.isatty())
    if not opener:
        return False
    subprocess.Popen(
        [opener, url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return True
