"""Examples with a page, as their own pages run them: installed by npm, served by Vite, built with the harness of a test."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from stepline.local.page.page_build import WEB, install_page_packages
from stepline.local.stage.deployed import install_environment
from tests.support.guide import copy_examples


def install(folder, name):
    """Install an example in an empty folder, and return its folder there."""
    install_page_packages(print)
    copy_examples(folder)
    (folder / "web").symlink_to(WEB)
    project = folder / "examples" / name
    _run(project, "npm", "run", "setup")
    return project


def build(project, folder, harness, place):
    """Build an installed example with a harness in place of its file of that name; return the folder of the page's files.

    `place` is the path of the page on its origin.
    """
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(harness, folder)
    (folder / "node_modules").symlink_to(project / "node_modules")
    _run(folder, "node", "node_modules/typescript/bin/tsc")
    # React runs each effect twice in StrictMode in a build for development alone.
    options = ("--mode", "development", "--base", place, "--target", "es2023")
    _run(folder, "node", "node_modules/vite/bin/vite.js", "build", *options, NODE_ENV="development")
    return folder / "dist"


@contextmanager
def opened(browser, project, stage):
    """Start an installed example at an origin of its own that the stage lets in, and yield a tab of it until the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    origin = f"http://localhost:{port}"
    stage.command("up", "--origin", origin)
    context = browser.new_context()
    try:
        with _started(project, port):
            page = context.new_page()
            page.goto(origin)
            yield page
    finally:
        context.close()
        stage.command("up")


@contextmanager
def _started(project, port):
    """Run `npm start` at a port until the end; it answers when this is entered."""
    environment = install_environment()
    command = [_found("npm", environment), "start", "--", "--port", str(port)]
    server = subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True, process_group=0
    )
    try:
        lines = []
        for line in server.stdout:
            lines.append(re.sub(r"\x1b\[\d+m", "", line))
            if f"localhost:{port}" in lines[-1]:
                break
        else:
            raise AssertionError("".join(lines))
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.communicate()


def _found(command, environment):
    found = shutil.which(command, path=environment["PATH"])
    assert found, f"{command} is not beside {sys.executable}"
    return found


def _run(folder: Path, command: str, *arguments: str, **variables: str) -> None:
    environment = install_environment() | {"CI": "true", "npm_config_prefer_offline": "true", **variables}
    done = subprocess.run(
        [_found(command, environment), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command} {arguments[0]}\n{done.stdout}\n{done.stderr}"
