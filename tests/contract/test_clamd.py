"""ClamAV's daemon finds what it knows, and a daemon that does not answer calls nothing clean."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from stepline.adapters.upload.clamd import ClamdScanner

from .clamav_daemon import EICAR, ClamavDaemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory) -> Iterator[ClamavDaemon]:
    found = ClamavDaemon(tmp_path_factory.mktemp("clamav"))
    yield found
    found.stop()


@pytest.fixture(params=["tcp", "unix"])
def scanner(request, daemon: ClamavDaemon) -> ClamdScanner:
    host = daemon.socket if request.param == "unix" else "127.0.0.1"
    return ClamdScanner(host, daemon.port, timeout_s=60)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_the_scanners_test_file_is_found(scanner: ClamdScanner, path: Path):
    path.write_bytes(EICAR)
    assert scanner.scan(path, "quarantine/a") == "infected"


def test_another_file_is_clean(scanner: ClamdScanner, path: Path):
    path.write_bytes(b"hello" * 50_000)
    assert scanner.scan(path, "quarantine/a") == "clean"


def test_a_file_that_the_daemon_does_not_take_is_not_clean(scanner: ClamdScanner, path: Path):
    path.write_bytes(bytes(31 * 1024 * 1024))
    assert scanner.scan(path, "quarantine/a") == "unknown"


def answering(answer: bytes) -> int:
    """Listen once, answer this to whatever comes, and return the port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        taken, _ = server.accept()
        with taken, server:
            while not taken.recv(65_536).endswith(bytes(4)):
                pass
            taken.sendall(answer)

    Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


@pytest.mark.parametrize("answer", [b"", b"stream: ERROR\0", b"OK\0", b"stream: OK, almost\0"])
def test_an_answer_that_does_not_say_clean_is_not(path: Path, answer: bytes):
    path.write_bytes(b"hello")
    assert ClamdScanner("127.0.0.1", answering(answer), timeout_s=60).scan(path, "a") == "unknown"


def test_a_daemon_that_is_not_there_calls_nothing_clean(path: Path):
    path.write_bytes(b"hello")
    with socket.socket() as taken:  # so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert ClamdScanner("127.0.0.1", port, timeout_s=60).scan(path, "a") == "unknown"
    assert ClamdScanner(str(path.with_name("none.sock")), 0, timeout_s=60).scan(path, "a") == "unknown"
