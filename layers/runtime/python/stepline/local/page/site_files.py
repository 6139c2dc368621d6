"""The files of the page and their headers: which address gives which bytes, decided without a server.

Files are looked up in a table of what is there, so no address leads out of it. The headers are those of `web/headers.json`, which
a deployed site has too.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

Kind = Literal["page", "frame", "bundle", "assets"]

ASSETS: Final = "/assets/"
"""Parts of the page, whose names change with their content."""
_MIMES: Final = {
    ".css": "text/css; charset=utf-8",
    ".gif": "image/gif",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
_PACKED: Final = ("text/", "application/json", "image/svg+xml", "application/wasm")
_PACKED_MIN_BYTES: Final = 1024


@dataclass(frozen=True)
class SiteFile:
    """A file as it is answered."""

    body: bytes
    mime: str
    kind: Kind

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def packed(self) -> bytes | None:
        """The body in gzip, None where that is of no use."""
        is_text = self.mime.startswith(_PACKED)
        return gzip.compress(self.body, mtime=0) if is_text and len(self.body) >= _PACKED_MIN_BYTES else None


class Site:
    """The files of one build, by their addresses."""

    def __init__(self, dist: Path) -> None:
        """Read the build."""
        self._files = {
            f"/{name}": SiteFile(path.read_bytes(), mime_of(path), _kind(name))
            for name, path in list_files(dist).items()
        }

    def find(self, path: str) -> SiteFile | None:
        """Return the file at an address, else the page itself, which knows its routes. None for a missing part of it."""
        return self._files.get(path) or (None if path.startswith(ASSETS) else self._files.get("/index.html"))


def list_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their names in it, without hidden ones and without links that lead out."""
    inside = folder.resolve()
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if not hidden and path.is_file() and path.resolve().is_relative_to(inside):
            found[name.as_posix()] = path
    return found


def find_bundle_file(path: str, folders: Mapping[str, Path]) -> SiteFile | None:
    """Return the file of a bundle's own page at `/ui/<bundle>/…`; the address of the folder is its `index.html`."""
    name, slash, rest = path.removeprefix("/ui/").partition("/")
    folder = folders.get(name)
    if folder is None or not slash:
        return None
    found = list_files(folder).get(rest or "index.html")
    return SiteFile(found.read_bytes(), mime_of(found), "bundle") if found else None


def bundle_folders(modules: Mapping[str, str], roots: list[Path]) -> dict[str, Path]:
    """Return the folder `ui` of each bundle that has one, by the bundle's name; `modules` are their modules."""
    found = {}
    for name, module in modules.items():
        places = (root / module.replace(".", "/") / "ui" for root in roots)
        if (place := next((place for place in places if place.is_dir()), None)) is not None:
            found[name] = place
    return found


def fill_headers(
    table: Mapping[str, Any], config: Mapping[str, Any], files_url: str
) -> dict[Kind, dict[str, str]]:
    """Return the headers of each kind of file, with the addresses of this stage in the page's policy."""
    places = {
        "{http}": origin_of(config.get("http_url", "")),
        "{socket}": origin_of(config.get("socket_url", "")),
        "{issuer}": origin_of(config.get("issuer", "")),
        "{files}": origin_of(files_url),
    }
    filled: dict[Kind, dict[str, str]] = {}
    for kind in ("page", "frame", "bundle", "assets"):
        headers = dict(table[kind])
        policy = headers.get("Content-Security-Policy", "")
        for word, place in places.items():
            policy = policy.replace(word, place)
        if policy:
            headers["Content-Security-Policy"] = policy
        filled[kind] = headers
    return filled


def origin_of(url: str) -> str:
    """Return the origin of an address, "" for none."""
    found = urlsplit(url)
    return f"{found.scheme}://{found.netloc}" if found.netloc else ""


def mime_of(path: Path) -> str:
    return _MIMES.get(path.suffix.lower(), "application/octet-stream")


def read_table(web: Path) -> dict[str, Any]:
    """Return the table of headers."""
    found: dict[str, Any] = json.loads((web / "headers.json").read_bytes())
    return found


def _kind(name: str) -> Kind:
    if name == "frame.html":
        return "frame"
    return "assets" if name.startswith("assets/") else "page"
