"""The key of a stage's owner: it proves at sign-in that the user can read its file, or received it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from stepline.local.stage.deployed import HOME, write_private

OPEN_SESSION: Final = "/session/open"
"""The path at which the key enables the sign-in of one browser."""


def load_owner_key(home: Path = HOME) -> str:
    """Return the key, generated at random on first use and kept in a file that only its owner can read."""
    path = home / "page_key"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text()


def page_address(issuer_url: str, home: Path = HOME) -> str:
    """Return the address that opens the chat page and allows signing in there. Secret."""
    return f"{issuer_url}{OPEN_SESSION}?{urlencode({'key': load_owner_key(home)})}"
