"""The first process of an executor's container, in its own pid namespace, with a test as its supervisor."""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stepline.programs.frame import FrameReader, render_frame
from tests.unit.exec_task.executor.jailed import HOME, PAYLOAD, linux

pytestmark = [
    linux,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("unshare") is None, reason="a namespace of processes needs root"
    ),
]
PATIENCE_S = 60
UNSHARED = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


class Supervisor:
    """Listens for one keeper, which it starts; the payload's supervisor socket exists only if a test creates it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "control.sock"
        self.socket = folder / "supervisor.sock"
        self.log = b""
        self._folder = folder
        self._frames = FrameReader()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(1)
        self._listener.settimeout(PATIENCE_S)
        self.process = subprocess.Popen(
            [*UNSHARED, sys.executable, "-I", "-B", str(HOME / "init.py"), "--serve", str(self.path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.connection, _ = self._listener.accept()
        self.connection.settimeout(PATIENCE_S)

    def start(self, **fields):
        payload = {
            **PAYLOAD,
            "exec_id": "tc_1",
            "bundle_id": "b",
            "turn": "turn_1",
            "work": str(self._folder),
            "out": str(self._folder),
            "bundle_root": str(self._folder),
            "socket": str(self.socket),
            "token": "t0ken",
            "aliases": {},
            "own_pid_ns": True,
            **fields,
        }
        self.connection.sendall(render_frame(json.dumps(payload).encode()))

    def stop(self):
        self.connection.sendall(render_frame(b'{"type":"stop"}'))

    def hear(self):
        """Return the next message that is not a log; keep the logs."""
        bodies = []
        while True:
            for message in map(json.loads, bodies):
                if message["type"] != "log":
                    return message
                self.log += base64.b64decode(message["data"])
            data = self.connection.recv(65536)
            assert data, "the keeper hung up"
            bodies = self._frames.feed(data)

    def close(self):
        self.connection.close()
        self._listener.close()
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def supervisor():
    with tempfile.TemporaryDirectory(prefix="keeper-") as folder:
        made = Supervisor(Path(folder))
        yield made
        made.close()


def test_a_jail_that_does_not_close_is_reported_with_its_message(supervisor):
    supervisor.start(uid=0)
    ended = supervisor.hear()
    assert ended.pop("seconds") >= 0
    assert ended == {"type": "ended", "returncode": 126, "out_of_memory": False, "stopped": False}
    assert b"never runs as root" in supervisor.log


def answer_nothing(path: Path) -> socket.socket:
    """Act as a supervisor that accepts a hello and never answers: the jailed executor waits until its timeout."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o777)
    listener.listen()
    listener.settimeout(PATIENCE_S)
    return listener


@pytest.fixture
def waiting(supervisor):
    """A program that is about to begin and waits forever."""
    supervisor.path.parent.chmod(0o755)
    with answer_nothing(supervisor.socket) as listener:
        supervisor.start()
        connection, _ = listener.accept()
        with connection:
            yield supervisor


def test_a_stop_message_ends_the_program(waiting):
    waiting.stop()
    ended = waiting.hear()
    assert (ended["returncode"], ended["stopped"]) == (-15, False)


def test_a_stopped_container_ends_its_program_and_reports_the_stop(waiting):
    children = Path(f"/proc/{waiting.process.pid}/task/{waiting.process.pid}/children").read_text().split()
    os.kill(int(children[0]), 15)
    ended = waiting.hear()
    assert (ended["returncode"], ended["stopped"]) == (-15, True)


def test_without_its_supervisor_a_program_ends(waiting):
    waiting.connection.close()
    said, _ = waiting.process.communicate(timeout=PATIENCE_S)
    assert waiting.process.returncode == 1
    assert "the supervisor is lost" in said


def test_the_keeper_runs_only_in_its_own_container():
    done = subprocess.run(
        [sys.executable, "-I", "-B", str(HOME / "init.py"), "--serve", "/nowhere"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "a container of its own" in done.stdout + done.stderr
