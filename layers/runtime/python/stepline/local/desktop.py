"""The desktop of this machine, if there is one: it opens addresses in a browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

from stepline.local.stage.deployed import write_private

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
_ELSEWHERE: Final = ("CI", "SSH_CONNECTION")


def find_opener(variables: Mapping[str, str], *, platform: str, on_terminal: bool) -> str:
    """Return the command that opens an address, "" without a visible desktop: in a pipe, in CI, or over SSH."""
    if not on_terminal or any(variables.get(name) for name in _ELSEWHERE):
        return ""
    if platform == "darwin":
        return shutil.which("open") or ""
    shown = any(variables.get(name) for name in _DISPLAYS)
    return (shutil.which("xdg-open", path=variables.get("PATH")) or "") if shown else ""


def open_address(url: str) -> bool:
    """Open an address in the browser if there is a desktop; return False without one. Does not wait for the browser."""
    opener = _find_opener()
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


def open_secret(address: str, folder: Path) -> bool:
    """Open a secret address by a file in `folder` that redirects to it: every user can read a command's arguments."""
    if not _find_opener():
        return False
    leads = f"0; url={escape(address)}"
    page = f'<!doctype html>\n<meta charset="utf-8">\n<meta http-equiv="refresh" content="{leads}">\n'
    write_private(folder / "open.html", page.encode())
    return open_address((folder / "open.html").absolute().as_uri())


def _find_opener() -> str:
    here = os.environ  # noqa: TID251 - the desktop's variables, not settings of Stepline
    return find_opener(here, platform=sys.platform, on_terminal=sys.stdout.isatty())
