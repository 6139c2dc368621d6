"""Names on this machine: the user's, and the command's in their shell."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import sys
from pathlib import Path


def name_user(given: str) -> str:
    """Return the given name, else the account's, reduced to characters that are valid in a key; "me" without one."""
    if given:
        return given
    try:
        account = getpass.getuser()
    except (
        KeyError,
        OSError,
    ):  # a user id without an account, as in a container; the errors of Python 3.12 and 3.13
        return "me"
    return re.sub(r"[^A-Za-z0-9_-]", "-", account).lstrip("_-")[:64] or "me"


def own_command() -> list[str]:
    """Return the words that run this command in the user's shell: `stepline` if its environment is active, else a path.

    `make` adds the environment to the PATH of the commands that it runs, not to the shell's.
    """
    here = os.environ  # noqa: TID251 - the shell's own variables, not settings of Stepline
    script = Path(sys.prefix) / "bin/stepline"
    found = shutil.which("stepline")
    ours = found is not None and script.exists() and Path(found).samefile(script)
    if ours and ("MAKELEVEL" not in here or here.get("VIRTUAL_ENV") == sys.prefix):
        return ["stepline"]
    if not script.exists():
        return [sys.executable, "-m", "stepline"]
    folder = Path.cwd()
    return [str(script.relative_to(folder) if script.is_relative_to(folder) else script)]
