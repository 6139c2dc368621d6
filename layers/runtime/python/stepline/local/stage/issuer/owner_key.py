"""The key of a stage's owner: who signs in at the issuer shows that they can read its file, or were given it."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from stepline.local.stage.deployed import HOME, write_private

OPEN_SESSION: Final = "/session/open"
"""Where the key opens the sign-in of one browser."""


def load_owner_key(home: Path = HOME) -> str:
    """Return the key, generated at random on first use and kept in a file that its owner alone can read."""
    path = home / "page_key"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32).encode())
    return path.read_text()


def page_address(issuer_url: str, home: Path = HOME) -> str:
    """Return the address that opens the chat page and lets one sign in there. Secret."""
    return f"{issuer_url}{OPEN_SESSION}?{urlencode({'key': load_owner_key(home)})}"
