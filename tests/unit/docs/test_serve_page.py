"""The commands of docs/how-to/serve.md start a server of doors, ask it, and end it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from stepline.local.page.page_build import SERVER, WEB, digest_sources, is_built
from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/serve.md"
BLOCKS = re.findall(
    r"^<!-- not run: tests/unit/docs/test_serve_page.py runs it -->\n```sh\n(.*?)^```",
    PAGE.read_text(),
    re.DOTALL | re.MULTILINE,
)
PORT = "8040"

pytestmark = pytest.mark.skipif(
    not (is_built(digest_sources(WEB, SERVER), WEB, SERVER) or (WEB / "node_modules").is_dir()),
    reason="the packages of web/ are not installed: make web",
)


@contextmanager
def refusing() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a stage that refuses every token, and what it was asked."""
    asked: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            body = json.dumps({"status": 401, "code": "unauthorized", "detail": "no"}).encode()
            self.send_response(401)
            self.send_header("Content-Type", "application/problem+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


@contextmanager
def serving(home: Path, url: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the first command of the page, and yield the process and its port."""
    port = free_port()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    given = {"STEPLINE_HOME": str(home), "STEPLINE_URL": url, "AWS_SECRET_ACCESS_KEY": "s"}
    command = "exec " + BLOCKS[0].replace(PORT, port)
    process = subprocess.Popen(
        ["bash", "-c", command], env={"PATH": path, **given}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["url"] == f"http://127.0.0.1:{port}"
        yield process, port
    finally:
        process.kill()
        process.communicate()


def ask(block: str, port: str) -> str:
    command = block.replace(PORT, port)
    variables = {"PATH": os.defpath, "STEPLINE_TOKEN": "a.b.c"}
    ran = subprocess.run(
        ["bash", "-c", command], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    return ran.stdout


def test_the_commands_of_the_page_start_a_server_that_asks_the_stage_with_the_token(tmp_path: Path) -> None:
    with refusing() as (url, asked), serving(tmp_path, url) as (process, port):
        assert json.loads(ask(BLOCKS[1], port)) == {"status": "ok", "streams": 0, "max": 1000}
        assert json.loads(ask(BLOCKS[2], port))["code"] == "unauthorized"
        assert asked == ["/v1/socket-tickets Bearer a.b.c"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert len(BLOCKS) == 3


def test_the_server_ends_although_the_stage_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with serving(tmp_path, url) as (process, port):
            command = BLOCKS[2].replace(PORT, port)
            variables = {"PATH": os.defpath, "STEPLINE_TOKEN": "a.b.c"}
            with subprocess.Popen(["bash", "-c", command], env=variables, stderr=subprocess.DEVNULL):
                connection, _ = silent.accept()
                with connection:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(20) == 0


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no procfs")
def test_the_server_receives_no_credentials(tmp_path: Path) -> None:
    with serving(tmp_path, "http://127.0.0.1:9") as (process, _):
        assert b"AWS_" not in Path(f"/proc/{process.pid}/environ").read_bytes()
