"""The build of the chat page: `python -m stepline.local.page.page_build` builds it if its sources have changed.

The packages are installed from their lock file, and none of their scripts runs. The result is kept next to a digest of
its sources. An installed package contains the result and no sources: then nothing is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from stepline.errors import DependencyError
from stepline.local.stage.deployed import REPOSITORY, install_environment

WEB: Final = REPOSITORY / "web"
TIMEOUT_S: Final = 600
SAID_LINES: Final = 40
_SOURCES: Final = (
    "src",
    "public",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.ts",
    "tsconfig.json",
)
_DIGEST: Final = ".sources"


def digest_sources(web: Path = WEB) -> str:
    """Return a digest of all sources of the page, "" without sources."""
    if not (web / "src").is_dir():
        return ""
    total = hashlib.sha256()
    for name in _SOURCES:
        root = web / name
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and "node_modules" not in path.parts:
                total.update(f"{path.relative_to(web)}\0{path.stat().st_size}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def built_of(web: Path = WEB) -> str | None:
    """Return the digest of the sources of the existing build, None without a build."""
    if not (web / "dist/index.html").exists():
        return None
    kept = web / "dist" / _DIGEST
    return kept.read_text() if kept.exists() else ""


def is_built(digest: str, web: Path = WEB) -> bool:
    """Return True if the page was built from these sources, or was installed without sources."""
    built = built_of(web)
    return built is not None and (not digest or built == digest)


def install_page_packages(progress: Callable[[str], None], web: Path = WEB) -> None:
    """Install the packages of the page's lock file unless they are there. Raises DependencyError `page_build`."""
    lock, there = web / "package-lock.json", web / "node_modules/.package-lock.json"
    if there.exists() and there.stat().st_mtime >= lock.stat().st_mtime:
        return
    progress("installing the packages of the chat page (250 MB, some seconds)")
    _run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", web=web)
    there.touch()


def build_page(progress: Callable[[str], None], web: Path = WEB) -> None:
    """Build the page, unless it is built: another process may be building it at this moment.

    Raises DependencyError `page_build` with the end of the failed command's output.
    """
    with _locked(web):
        digest = digest_sources(web)
        if is_built(digest, web):
            return
        if not digest:
            raise DependencyError("this installation came without the chat page", code="page_build")
        install_page_packages(progress, web)
        progress("building the chat page")
        fresh, old = web / "node_modules/.dist", web / "node_modules/.dist.old"
        _run(
            "node", "node_modules/vite/bin/vite.js", "build", "--outDir", str(fresh), "--emptyOutDir", web=web
        )
        (fresh / _DIGEST).write_text(digest)
        shutil.rmtree(old, ignore_errors=True)
        if (web / "dist").exists():
            (web / "dist").rename(old)
        fresh.rename(web / "dist")
        shutil.rmtree(old, ignore_errors=True)


def _run(command: str, *arguments: str, web: Path) -> None:
    environment = install_environment() | {"NO_COLOR": "1", "CI": "true"}
    found = shutil.which(command, path=environment["PATH"])
    if found is None:
        raise DependencyError(f"{command} is not in the environment: make", code="page_build")
    try:
        done = subprocess.run(
            [found, *arguments],
            cwd=web,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DependencyError(f"{command} {arguments[0]} took too long", code="page_build") from error
    if done.returncode:
        said = "\n".join(done.stdout.splitlines()[-SAID_LINES:])
        raise DependencyError(f"{command} {arguments[0]} failed:\n{said}", code="page_build")


@contextmanager
def _locked(web: Path) -> Iterator[None]:
    """Lock the folder: one process at a time builds in it."""
    folder = os.open(web, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def main() -> None:
    """Build the page, or with `install` only install its packages."""

    def progress(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    try:
        (install_page_packages if sys.argv[1:] == ["install"] else build_page)(progress)
    except DependencyError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
