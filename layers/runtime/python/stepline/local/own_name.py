"""The name under which whoever sits at this machine talks to the agent."""

from __future__ import annotations

import getpass
import re


def name_user(given: str) -> str:
    """Return the given name, else the account's, reduced to characters that are valid in a key; "me" without one."""
    if given:
        return given
    try:
        account = getpass.getuser()
    except (
        KeyError,
        OSError,
    ):  # a user id without an account, as in a container; the error of Python 3.12 and of 3.13
        return "me"
    return re.sub(r"[^A-Za-z0-9_-]", "-", account).lstrip("_-")[:64] or "me"
