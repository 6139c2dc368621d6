"""The server of the chat page on loopback: files of the build, the stage's addresses, and the pages of bundles.

It builds the page on the first request, in a thread, and answers with the progress meanwhile. Files are looked up in a
table of the existing ones, so no address leads outside; their headers are those of `web/headers.json`, which a deployed
site also uses.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar, Final, Literal
from urllib.parse import unquote, urlsplit

from stepline.errors import DependencyError
from stepline.local.guard.own_server import HEALTH, OwnServer, own_identity
from stepline.local.page.page_build import WEB, build_page, built_of, digest_sources, is_built
from stepline.local.stage.deployed import REPOSITORY, load, read_json
from stepline.local.stage.service import LOOPBACK

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
    """A file in the form of its response."""

    body: bytes
    mime: str
    kind: Kind

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def packed(self) -> bytes | None:
        """The body in gzip, None if compression would not help."""
        is_text = self.mime.startswith(_PACKED)
        return gzip.compress(self.body, mtime=0) if is_text and len(self.body) >= _PACKED_MIN_BYTES else None


class _SiteBuild:
    """The files of one build, by their addresses."""

    def __init__(self, dist: Path) -> None:
        self._files = {
            f"/{name}": SiteFile(path.read_bytes(), mime_of(path), _kind(name))
            for name, path in _list_page_files(dist).items()
        }

    def find(self, path: str) -> SiteFile | None:
        """Return the file at an address, else the page itself, which knows its routes. None for a missing asset."""
        return self._files.get(path) or (None if path.startswith(ASSETS) else self._files.get("/index.html"))


def _list_page_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their relative names, without hidden ones and without links that lead outside."""
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
    found = _list_page_files(folder).get(rest or "index.html")
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


def _kind(name: str) -> Kind:
    if name == "frame.html":
        return "frame"
    return "assets" if name.startswith("assets/") else "page"


CONFIG: Final = "/config.json"
BUNDLES: Final = "/ui/"
OWN: Final = "default"
"""The name of the stage's own bundle among others."""
_CONFIG_OUTPUT: Final = "PageConfig"
_PLAIN_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
_AGAIN_S: Final = 1


class PageBuild:
    """The newest build of the page, made in a thread when it is missing or older than its sources."""

    def __init__(
        self, web: Path = WEB, make: Callable[[Callable[[str], None], Path], None] = build_page
    ) -> None:
        self._web, self._make = web, make
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failed: tuple[str, str] = ("", "")  # the sources that failed to build, and the reason
        self._site: tuple[str | None, _SiteBuild] | None = None

    def site(self) -> _SiteBuild | str | None:
        """Return the built page, the reason why it cannot be built, or None while it is being built."""
        with self._lock:
            # Before the files are looked at: those of a build that ends in between are not missing.
            is_building = self._thread is not None and self._thread.is_alive()
            digest = digest_sources(self._web)
            if is_built(digest, self._web):
                return self._read()
            if is_building:
                return None
            if self._failed[1] and self._failed[0] == digest:
                return self._failed[1]
            self._thread = threading.Thread(target=self._build, args=(digest,), daemon=True)
            self._thread.start()
            return None

    def built(self) -> _SiteBuild | None:
        """Return the page as last built, None if it never was: a request for one of its files triggers no build."""
        with self._lock:
            return None if built_of(self._web) is None else self._read()

    def _read(self) -> _SiteBuild:
        built = built_of(self._web)
        if self._site is None or self._site[0] != built:
            self._site = built, _SiteBuild(self._web / "dist")
        return self._site[1]

    def _build(self, digest: str) -> None:
        try:
            self._make(_log, self._web)
        except (DependencyError, OSError) as error:
            _log(str(error))
            self._failed = digest, str(error)


class StageFacts:
    """Facts about the stage that the page receives, from the stage's folder, where `stepline up` saved them."""

    def __init__(self, home: Path, web: Path = WEB) -> None:
        """Read nothing yet: the stage may be deployed later, and again."""
        self._home, self._web = home, web

    def config(self) -> dict[str, Any] | None:
        """Return the document that connects the page to its stage, None before the first deployment.

        It lists the pages of the bundles on this machine, since the functions' code is deployed without looking for
        them. The suggestions are the stage's.
        """
        outputs = read_json(self._home / "outputs.json")
        configured = [stack[_CONFIG_OUTPUT] for stack in outputs.values() if _CONFIG_OUTPUT in stack]
        if not configured:
            return None
        stage = load(self._home)
        offered = {"suggestions": list(stage.requests)} if stage else {}
        return {**json.loads(configured[0]), "ui": sorted(self.bundles()), **offered}

    def headers(self) -> Mapping[Any, Mapping[str, str]]:
        stage, table = load(self._home), read_json(self._web / "headers.json")
        return fill_headers(table, self.config() or {}, stage.endpoint if stage else "")

    def bundles(self) -> dict[str, Path]:
        """Return the folders with the pages of bundles, by the bundles' names."""
        stage = load(self._home)
        if stage is None:
            return {}
        modules = {OWN: stage.bundle, **stage.bundles}
        return bundle_folders(modules, [*sorted((self._home / "bundle").glob("*")), REPOSITORY])


class PageHandler(BaseHTTPRequestHandler):
    """One request; a subclass sets the rest."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are sent separately; the body would wait for an ACK
    timeout = 30
    build: ClassVar[PageBuild]
    facts: ClassVar[StageFacts]

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        address: Any = self.server.server_address
        port = address[1]
        hosts = [host.lower() for host in self.headers.get_all("host", [])]
        if hosts == [f"localhost:{port}"]:
            # One origin: sign-in and the API know the page by it.
            self._say(
                HTTPStatus.PERMANENT_REDIRECT, b"", {"Location": f"http://{LOOPBACK}:{port}{self.path}"}
            )
        elif hosts != [f"{LOOPBACK}:{port}"]:
            self._say_text(HTTPStatus.FORBIDDEN, f"ask for {LOOPBACK}:{port}")
        elif path == HEALTH:
            self._say_text(HTTPStatus.OK, own_identity())
        elif path == CONFIG:
            self._say_config()
        elif path.startswith(BUNDLES):
            self._say_file(find_bundle_file(path, self.facts.bundles()))
        elif path.startswith(ASSETS):
            # Never triggers a build: an open page loads its parts from its own build.
            found = self.build.built()
            self._say_file(found.find(path) if found else None)
        else:
            self._say_page(path)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log a request without its query, which may contain a code of a sign-in."""
        self.log_message("%s %s %s", self.command, self.path.partition("?")[0][:100], str(code))

    def _say_page(self, path: str) -> None:
        match self.build.site():
            case None:
                self._say_state(
                    "Building the page",
                    "The page is built the first time it is opened, and after a change.",
                    "",
                )
            case str(why):
                self._say_state("The page could not be built", "The end of the build's output:", why)
            case site:
                self._say_file(site.find(path))

    def _say_file(self, file: SiteFile | None) -> None:
        if file is None:
            self._say_text(HTTPStatus.NOT_FOUND, "not found")
            return
        headers = {**self.facts.headers()[file.kind], "Content-Type": file.mime, "ETag": file.etag}
        if file.packed is not None:
            headers["Vary"] = "Accept-Encoding"
        if file.etag in self.headers.get("if-none-match", ""):
            self._say(HTTPStatus.NOT_MODIFIED, b"", headers)
        elif file.packed is not None and "gzip" in self.headers.get("accept-encoding", ""):
            self._say(HTTPStatus.OK, file.packed, {**headers, "Content-Encoding": "gzip"})
        else:
            self._say(HTTPStatus.OK, file.body, headers)

    def _say_config(self) -> None:
        config = self.facts.config()
        if config is None:
            self._say_text(HTTPStatus.SERVICE_UNAVAILABLE, "the stage is not deployed yet")
            return
        headers = {**self.facts.headers()["page"], "Content-Type": "application/json"}
        self._say(HTTPStatus.OK, json.dumps(config).encode(), headers)

    def _say_state(self, title: str, words: str, said: str) -> None:
        """Answer with a page that shows the progress of the build, and reloads itself until it is done."""
        again = "" if said else f'<meta http-equiv="refresh" content="{_AGAIN_S}">'
        shown = f"<pre>{escape(said)}</pre>" if said else ""
        text = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">{again}
<title>{escape(title)}</title><h1>{escape(title)}</h1><p>{escape(words)}</p>{shown}</html>
"""
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": _PLAIN_POLICY}
        self._say(HTTPStatus.SERVICE_UNAVAILABLE, text.encode(), {**headers, "Cache-Control": "no-store"})

    def _say_text(self, status: HTTPStatus, text: str) -> None:
        headers = {"Content-Type": "text/plain; charset=utf-8", "Content-Security-Policy": _PLAIN_POLICY}
        self._say(status, text.encode(), {**headers, "Cache-Control": "no-store"})

    def _say(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"X-Content-Type-Options": "nosniff", **headers}.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def make_page_server(port: int, facts: StageFacts, page: PageBuild) -> OwnServer:
    """Return the page's server; port 0 picks a free one."""

    class Handler(PageHandler):
        pass

    Handler.facts, Handler.build = facts, page
    return OwnServer((LOOPBACK, port), Handler)


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")
