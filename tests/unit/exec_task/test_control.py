from __future__ import annotations

import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from exec_task.control import Control
from stepline.adapters.sandbox.tail import Tail
from stepline.errors import SandboxError


class Quiet:
    """A caller that sends no message until a test does."""

    def __init__(self):
        self.source, self._bell = os.pipe()
        self.word = ""

    def hear(self):
        assert self.word, "nothing was said"
        return self.word

    def say(self, word):
        self.word = word
        os.write(self._bell, b"!")

    def close(self):
        os.close(self.source)
        os.close(self._bell)


@pytest.fixture
def caller():
    made = Quiet()
    yield made
    made.close()


@pytest.fixture
def place(tmp_path):
    return tmp_path / "control.sock"


def connect(place):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(60)
    client.connect(str(place))
    return client


def test_only_one_connection_is_accepted(place, caller):
    with Control(place, uid=os.geteuid(), owner=None, log=Tail(10)) as control:
        assert stat.S_IMODE(place.stat().st_mode) == 0o660
        with connect(place), socket.socket(socket.AF_UNIX) as late:
            assert control.accept(caller) == ""
            with pytest.raises(FileNotFoundError):
                late.connect(str(place))


def test_a_second_connection_is_not_queued(place, caller):
    control = Control(place, uid=os.geteuid(), owner=None, log=Tail(10))
    with control, connect(place), connect(place) as second:
        assert control.accept(caller) == ""
        with pytest.raises(ConnectionResetError):
            second.recv(1)


def test_a_connection_of_another_account_is_refused_unread(place, caller):
    control = Control(place, uid=os.geteuid() + 1, owner=None, log=Tail(10))
    with control, ThreadPoolExecutor(1) as threads, connect(place) as client:
        waits = threads.submit(control.accept, caller)
        assert client.recv(1) == b""
        caller.say("task_stopped")  # until then it waits for its own account
        assert waits.result() == "task_stopped"


def test_a_container_that_does_not_connect_is_reported(place, caller):
    control = Control(place, uid=os.geteuid(), owner=None, log=Tail(10))
    with control, pytest.raises(SandboxError, match="did not come up"):
        control.accept(caller, connect_s=0)
    assert not place.exists()


def test_a_frame_that_announces_too_much_ends_the_run(place, caller):
    with Control(place, uid=os.geteuid(), owner=None, log=Tail(10)) as control, connect(place) as client:
        control.accept(caller)
        client.sendall(b"\xff" * 8)
        with pytest.raises(SandboxError, match="nonsense"):
            control.watch(caller, timeout_s=10, interval_s=10, check=lambda: None)
