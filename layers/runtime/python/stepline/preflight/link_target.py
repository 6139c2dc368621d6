"""Targets of links in foreign files: those outside of the file, and those on another machine."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_DRIVE: Final = re.compile(r"/*[a-z][:|](?:/|$)", re.IGNORECASE)
_DRIVE_PATH: Final = re.compile(r"[a-z]:", re.IGNORECASE)
_IGNORED: Final = re.compile(r"[\s\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\ufeff]+")
"""Characters that readers of addresses skip: blanks and controls, some of them anywhere."""


def leads_outside(target: str) -> bool:
    """Return True for a target that cannot be a part of a file, whatever the file states about it. Pure."""
    plain = _plain(target)
    return plain.startswith("//") or _SCHEME.match(plain) is not None


def is_remote(target: str) -> bool:
    r"""Return True unless a target is a name, or a path on this machine: `\\host\share` and every address are. Pure."""
    plain = _plain(target)
    scheme = _SCHEME.match(plain)
    if scheme is None or _DRIVE_PATH.fullmatch(scheme[0]):
        return plain.startswith("//")
    if scheme[1].lower() != "file":
        return True
    path = plain[scheme.end() :]
    if _DRIVE.match(path):
        return False
    if not path.startswith("//"):
        return False
    host, _, rest = path[2:].partition("/")
    return host.lower() not in ("", "localhost") or rest.startswith("/")


def scheme_of(target: str) -> str:
    """Return the scheme of an address, "" for none. Pure."""
    found = _SCHEME.match(_plain(target))
    return found[1].lower() if found else ""


def _plain(target: str) -> str:
    """Return a target without blanks, its escapes undone, with one kind of slash."""
    return _IGNORED.sub("", unquote(_IGNORED.sub("", target))).replace("\\", "/")
