"""The chat page as it is deployed: its built files, its response headers, and the dashboards of bundles beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from stepline.errors import InputError

DIST: Final = "web/dist"
HEADERS: Final = "web/headers.json"
CONFIG: Final = "config.json"
FRAME: Final = "frame.html"
INDEX: Final = "index.html"
ASSETS: Final = "assets/"
DASHBOARDS: Final = "ui/"
_PLACEHOLDER: Final = re.compile(r" ?\{(\w+)\}")

Headers = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PageFiles:
    """The folder of the built page, response headers by kind of address, and folders of dashboards by bundle.

    The kinds are `page`, `frame`, `bundle` and `assets`; a policy of `page` has placeholders for hosts.
    """

    dist: Path
    headers: Mapping[str, Headers]
    dashboards: Mapping[str, Path] = field(default_factory=dict)

    def plain(self) -> list[str]:
        """Return the addresses that are files and no routes, beyond those of a behaviour of their own."""
        found = {path.relative_to(self.dist).as_posix() for path in self.dist.rglob("*") if path.is_file()}
        found = {name for name in found if not name.startswith((ASSETS, "."))} - {INDEX, FRAME}
        return sorted(f"/{name}" for name in {*found, CONFIG})


def read_page(root: Path, bundles: Mapping[str, str], *, dist: Path | None = None) -> PageFiles:
    """Return the built page of a checkout with the dashboards of these bundles, packages by name.

    Raises InputError `page_missing` if the page was not built.
    """
    dist = dist or root / DIST
    if not (dist / INDEX).is_file():
        raise InputError(
            f"the chat page is not built, {dist} has no {INDEX}: run `make web`, or leave the page out: page=false",
            code="page_missing",
        )
    return PageFiles(dist=dist, headers=read_headers(root), dashboards=find_dashboards(bundles))


def read_headers(root: Path) -> Mapping[str, Headers]:
    """Return the response headers by kind of address."""
    found: Mapping[str, Headers] = json.loads((root / HEADERS).read_text(encoding="utf-8"))
    return found


def find_dashboards(bundles: Mapping[str, str]) -> dict[str, Path]:
    """Return the folders `ui` of the bundles that have one with an index."""
    found = {}
    for name, module in bundles.items():
        spec = find_spec(module)
        for place in (spec.submodule_search_locations if spec else None) or ():
            folder = Path(place) / "ui"
            if (folder / INDEX).is_file():
                found[name] = folder
    return found


def fill_headers(headers: Headers, **hosts: str) -> dict[str, str]:
    """Return headers with hosts for the placeholders; one without a host leaves nothing."""

    def fill(match: re.Match[str]) -> str:
        host = hosts.get(match[1], "")
        return f" {host}" if host else ""

    return {name: _PLACEHOLDER.sub(fill, value) for name, value in headers.items()}
