"""Pages that show a growing answer, built and served on loopback: ours, and those of others in `bench/page_peers`.

The packages of the others are installed from their own lock file into `.stepline/bench-page`; none of their scripts runs.
"""

from __future__ import annotations

import functools
import gzip
import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.peer import NoPeerError
from stepline.errors import DependencyError
from stepline.local.page import page_build
from stepline.local.stage.deployed import install_environment

HERE: Final = Path(__file__).resolve().parent
PEERS: Final = HERE / "page_peers"
PEERS_BUILT: Final = HERE.parent / ".stepline/bench-page"
WEB: Final = HERE.parent / "web"
TIMEOUT_S: Final = 600
BROTLI: Final = (
    "process.stdout.write(String(require('zlib').brotliCompressSync(require('fs').readFileSync(0)).length))"
)
LOADED: Final = re.compile(r'<(?:script|link)\b[^>]*?\b(?:src|href)="/?([^"]+\.(?:js|css))"')


class Size(NamedTuple):
    """Compressed bytes of scripts and styles."""

    gzip: int
    brotli: int


def build_ours() -> Path:
    """Build our pages of the bench and the chat page itself; return the folder of the former. Raises DependencyError."""
    page_build.build_page(lambda text: print(text, file=sys.stderr))
    _run(WEB, "node", "node_modules/vite/bin/vite.js", "build", "-c", "tests/bench/vite.config.ts")
    return WEB / "node_modules/.bench"


def build_peers() -> Path:
    """Install and build the pages of others; return their folder. Raises NoPeerError."""
    PEERS_BUILT.mkdir(parents=True, exist_ok=True)
    lock, made_from = PEERS / "package-lock.json", PEERS_BUILT / "node_modules/.made-from"
    is_installed = made_from.exists() and made_from.read_bytes() == lock.read_bytes()
    shutil.copytree(PEERS, PEERS_BUILT, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    try:
        if not is_installed:
            print(f"installing the peers into {PEERS_BUILT.relative_to(HERE.parent)}", file=sys.stderr)
            _run(PEERS_BUILT, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
            shutil.copy(lock, made_from)
        _run(PEERS_BUILT, "node", "node_modules/vite/bin/vite.js", "build")
    except DependencyError as error:
        raise NoPeerError(f"the peers cannot be built: {error}") from error
    return PEERS_BUILT / "dist"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of loopback; yield its address."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def loaded_by(page: Path) -> list[Path]:
    """Return the scripts and styles that a built page loads at first."""
    return [page.parent / name for name in LOADED.findall(page.read_text(encoding="utf-8"))]


def compressed(files: list[Path]) -> Size:
    """Return the sizes of files, each compressed by itself, as a server sends them."""
    texts = [file.read_bytes() for file in files]
    return Size(
        sum(len(gzip.compress(text, 9)) for text in texts),
        sum(int(_run(WEB, "node", "-e", BROTLI, stdin=text)) for text in texts),
    )


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Files without a line for each request."""

    def log_message(self, *args: object) -> None:
        """Print nothing."""


def _run(folder: Path, command: str, *arguments: str, stdin: bytes = b"") -> str:
    """Return what a command of the environment prints. Raises DependencyError."""
    environment = install_environment() | {"NO_COLOR": "1", "CI": "true"}
    found = shutil.which(command, path=environment["PATH"])
    if found is None:
        raise DependencyError(f"{command} is not in the environment", code="page_build")
    try:
        done = subprocess.run(
            [found, *arguments],
            cwd=folder,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise DependencyError(f"{command} took too long", code="page_build") from error
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout).decode(errors="replace").strip().splitlines()
        raise DependencyError(words[-1] if words else command, code="page_build") from error
    return done.stdout.decode(errors="replace")
