"""The builds of web/: `python -m stepline.local.page.page_build` makes those whose sources have changed.

They are the chat page and the server of doors.
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
from typing import Final, NamedTuple

from stepline.errors import DependencyError
from stepline.local.stage.deployed import REPOSITORY, install_environment

WEB: Final = REPOSITORY / "web"
TIMEOUT_S: Final = 600
SAID_LINES: Final = 40
_DIGEST: Final = ".sources"


class WebBuild(NamedTuple):
    """A build: its folder and main file, its sources, and the configuration of Vite besides the default."""

    title: str
    folder: str
    result: str
    sources: tuple[str, ...]
    config: str = "vite.config.ts"


PAGE: Final = WebBuild(
    "the chat page",
    "dist",
    "index.html",
    ("src", "public", "index.html", "package.json", "package-lock.json", "vite.config.ts", "tsconfig.json"),
)
SERVER: Final = WebBuild(
    "the server of doors",
    "dist-serve",
    "serve.mjs",
    ("src/api", "src/client", "src/door", "packages", "package.json", "package-lock.json"),
    "packages/serve/vite.config.ts",
)


def digest_sources(web: Path = WEB, target: WebBuild = PAGE) -> str:
    """Return a digest of all sources of a build, "" without sources."""
    if not (web / "src").is_dir():
        return ""
    total = hashlib.sha256()
    for name in target.sources:
        root = web / name
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and not {"node_modules", "dist"} & set(path.parts[len(web.parts) :]):
                total.update(f"{path.relative_to(web)}\0{path.stat().st_size}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def built_of(web: Path = WEB, target: WebBuild = PAGE) -> str | None:
    """Return the digest of the sources of the existing build, None without a build."""
    if not (web / target.folder / target.result).exists():
        return None
    kept = web / target.folder / _DIGEST
    return kept.read_text() if kept.exists() else ""


def is_built(digest: str, web: Path = WEB, target: WebBuild = PAGE) -> bool:
    """Return True if the build is of these sources, or was installed without sources."""
    built = built_of(web, target)
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
    """Build the page as `make_build` does."""
    make_build(PAGE, progress, web)


def build_server(progress: Callable[[str], None], web: Path = WEB) -> Path:
    """Build the server of doors as `make_build` does, and return its program."""
    make_build(SERVER, progress, web)
    return web / SERVER.folder / SERVER.result


def make_build(target: WebBuild, progress: Callable[[str], None], web: Path = WEB) -> None:
    """Build a target, unless it is built: another process may be building it at this moment.

    Raises DependencyError `page_build` with the end of the failed command's output.
    """
    digest = digest_sources(web, target)
    if not digest and is_built(digest, web, target):
        return  # an installation, which may not be written to
    with _locked(web):
        digest = digest_sources(web, target)
        if is_built(digest, web, target):
            return
        if not digest:
            raise DependencyError(f"this installation came without {target.title}", code="page_build")
        install_page_packages(progress, web)
        progress(f"building {target.title}")
        kept = web / target.folder
        fresh, old = (web / f"node_modules/.{target.folder}{end}" for end in ("", ".old"))
        options = ("-c", target.config, "--outDir", str(fresh), "--emptyOutDir")
        _run("node", "node_modules/vite/bin/vite.js", "build", *options, web=web)
        (fresh / _DIGEST).write_text(digest)
        shutil.rmtree(old, ignore_errors=True)
        if kept.exists():
            kept.rename(old)
        fresh.rename(kept)
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
    """Build the page and the server, or with `install` only install their packages."""

    def progress(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    try:
        if sys.argv[1:] == ["install"]:
            install_page_packages(progress)
        else:
            build_page(progress)
            build_server(progress)
    except DependencyError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
