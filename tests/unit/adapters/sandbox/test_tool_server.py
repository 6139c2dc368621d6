from __future__ import annotations

import json
import os
import select
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

import pytest

from stepline.adapters.sandbox.tool_server import CONNECTIONS_MAX, ROOM_BYTES, SupervisorServer
from stepline.errors import SandboxError
from stepline.programs.frame import REQUEST_BYTES_MAX, render_frame
from stepline.programs.host import ToolHost
from stepline.programs.request_gate import REFUSED_MAX
from stepline.tools.context import ToolOutput
from tests.unit.programs.tool_host import make_host, tool

TOKEN = "t0ken"
PATIENCE_S = 60.0
"""The maximum wait of a test; only a failing test waits that long."""


@pytest.fixture
def place():
    # Not pytest's own folder: a socket's path has at most 107 bytes.
    with TemporaryDirectory(prefix="sv-") as folder:
        yield Path(folder) / "supervisor.sock"


@contextmanager
def served(place: Path, *tools: Any, **options: Any):
    given = {"token": TOKEN, "allowed_uids": frozenset({os.getuid()}), "quota": 200, "deadline_s": 60.0}
    with SupervisorServer(place, host=make_host(*tools), **{**given, **options}) as server:
        yield server


class Peer:
    """A program's end of one connection, which follows no rule on its own."""

    def __init__(self, place: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(str(place))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, **fields: Any) -> None:
        request = {"v": 1, "id": 1, "type": "call", "token": TOKEN, "tool_id": "test.echo", "params": {}}
        with suppress(BrokenPipeError):  # a disconnected peer got the reason before
            self.socket.sendall(render_frame(json.dumps({**request, **fields}).encode()))

    def hello(self) -> Peer:
        self.send(type="hello", isolation={"backend": "process", "seccomp": True})
        assert self.reply() == {"v": 1, "id": 1, "ok": True, "result": {}}
        return self

    def reply(self) -> dict[str, Any]:
        return json.loads(self._exactly(int.from_bytes(self._exactly(4), "big")))

    def code(self) -> str:
        reply = self.reply()
        assert reply["ok"] is False
        assert (reply["error"]["where"], reply["error"]["managed"]) == ("supervisor", True)
        return reply["error"]["code"]

    def ask(self, **fields: Any) -> dict[str, Any]:
        self.send(**fields)
        return self.reply()

    def is_hung_up(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            assert piece, "hung up"
            data += piece
        return data


def test_a_program_reports_its_jail_and_calls(place):
    with served(place) as server, Peer(place) as peer:
        assert server.isolation is None
        assert peer.hello().ask(id=7, params={"n": 1}) == {"v": 1, "id": 7, "ok": True, "result": {"n": 1}}
        assert server.isolation is not None
        assert (server.isolation.backend, server.isolation.seccomp) == ("process", True)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a long path has a short name")
def test_a_folder_may_be_deeper_than_the_address_of_a_socket(place):
    deep = place.parent / ("d" * 100) / place.name
    deep.parent.mkdir()
    with served(deep):
        place.parent.joinpath("near").symlink_to(deep.parent)
        with Peer(place.parent / "near" / place.name) as peer:
            peer.hello()
    assert not deep.exists()


def test_the_hello_of_one_connection_is_that_of_the_run(place):
    with served(place), Peer(place) as first, Peer(place) as second:
        second.send()
        assert second.code() == "hello_required"
        first.hello()
        assert second.ask()["ok"]


def test_a_refused_call_leaves_the_connection_open(place):
    with served(place), Peer(place) as peer:
        peer.hello()
        for fields, code in (
            ({"tool_id": "test.fly"}, "unknown_tool"),
            ({"tool_id": "__class__"}, "unknown_tool"),
            ({"tool_id": "react.write"}, "tool_not_allowed"),
            ({"params": 1}, "bad_params"),
            ({"type": "hello", "isolation": {}}, "already_confined"),
            ({"tool_id": "test.refuse", "params": {"kind": "tool", "code": "own"}}, "own"),
        ):
            peer.send(**fields)
            assert peer.code() == code
        assert peer.ask()["ok"]


def test_the_quota_is_that_of_the_run(place):
    with served(place, quota=2), Peer(place) as first, Peer(place) as second:
        assert first.hello().ask()["ok"]
        assert second.ask()["ok"]
        second.send()
        assert second.code() == "quota_exceeded"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ((REQUEST_BYTES_MAX + 1).to_bytes(4, "big"), "frame_too_large"),
        (b"\xff\xff\xff\xff", "frame_too_large"),
        (render_frame(b""), "bad_frame"),
        (render_frame(b"[]"), "bad_frame"),
        (render_frame(b'{"v":9,"id":3}'), "bad_version"),
        (render_frame(b'{"v":1,"id":3}'), "unauthorized"),
        (render_frame(json.dumps({"v": 1, "id": 3, "token": TOKEN}).encode()), "unknown_type"),
        (b"GET / HTTP/1.1\r\n\r\n", "frame_too_large"),
    ],
)
def test_a_peer_that_breaks_the_framing_gets_an_error_and_is_disconnected(place, frame, code):
    with served(place), Peer(place) as peer:
        peer.hello().socket.sendall(frame)
        assert peer.code() == code
        assert peer.is_hung_up()


def test_after_many_refusals_a_run_gets_no_more_connections_but_keeps_those_it_has(place):
    with served(place) as server, Peer(place) as peer:
        peer.hello()
        for _ in range(REFUSED_MAX):
            with Peer(place) as stranger:
                stranger.send(token="guess")
                assert stranger.code() == "unauthorized"
                assert stranger.is_hung_up()
        with Peer(place) as late:
            assert late.code() == "too_many_refusals"
            assert late.is_hung_up()
        assert peer.ask()["ok"]
        peer.send(type="hello", isolation={})
        assert peer.code() == "already_confined"
        assert peer.is_hung_up()
        assert server.isolation is not None


def test_large_requests_wait_for_room_and_small_ones_do_not(place):
    size = REQUEST_BYTES_MAX
    with served(place) as server, ExitStack() as stack:
        half = [stack.enter_context(Peer(place)) for _ in range(ROOM_BYTES // size)]
        half[0].hello()
        for peer in half:
            peer.socket.sendall(size.to_bytes(4, "big") + b" ")
        assert reaches(lambda: server._room._free_bytes == 0)
        waits = stack.enter_context(Peer(place))
        frame = memoryview(render_frame(b" " * size))
        poll = select.poll()
        poll.register(waits.socket, select.POLLOUT)
        while poll.poll(50):  # until the peer accepts no more of it
            frame = frame[waits.socket.send(frame) :]
        assert len(frame) > size // 2
        small = stack.enter_context(Peer(place))
        assert small.ask()["ok"]
        half[0].socket.close()
        waits.socket.sendall(frame)
        assert waits.code() == "bad_frame"
    assert server._room._free_bytes == ROOM_BYTES


def test_a_request_that_waits_for_memory_ends_with_the_run(place):
    give_up_s = time.monotonic() + PATIENCE_S
    with (
        served(place, deadline_s=0.3) as server,
        Peer(place) as waits,
        server._room.held(ROOM_BYTES, give_up_s),
    ):
        with suppress(BrokenPipeError):  # on a busy machine the run's time may be over before it asks
            waits.socket.sendall(REQUEST_BYTES_MAX.to_bytes(4, "big"))
        assert waits.code() == "deadline_over"
        assert waits.is_hung_up()


def reaches(state: Callable[[], bool]) -> bool:
    give_up_s = time.monotonic() + PATIENCE_S
    while not (there := state()) and time.monotonic() < give_up_s:
        os.sched_yield()
    return there


def test_a_large_request_is_understood_and_its_room_is_given_back(place):
    with served(place) as server, Peer(place) as peer:
        peer.hello()
        for _ in range(4):
            assert peer.ask(params={"text": "x" * 7_000_000})["result"] == {"text": "x" * 7_000_000}
        assert peer.ask()["ok"]
        assert reaches(lambda: server._room._free_bytes == ROOM_BYTES)


def test_a_failing_host_is_logged_and_answered_and_ends_no_connection(place, caplog):
    class Broken:
        """Replaces the host that is created on the first call, and fails on creation."""

        def call(self, _tool_id: Any, _params: Any) -> Any:
            raise RuntimeError("password is hunter2")

    given = {"token": TOKEN, "allowed_uids": frozenset({os.getuid()}), "quota": 9, "deadline_s": 60.0}
    with SupervisorServer(place, host=cast("ToolHost", Broken()), **given), Peer(place) as peer:
        peer.hello()
        for _ in range(2):
            reply = peer.ask()
            assert (reply["id"], reply["error"]["code"]) == (1, "tool_failed")
            assert "hunter2" not in str(reply)
    assert "hunter2" in caplog.text


def test_a_request_in_many_pieces_and_two_in_one_are_both_understood(place):
    with served(place), Peer(place) as peer:
        peer.hello()
        body = json.dumps(
            {"v": 1, "id": 1, "type": "call", "token": TOKEN, "tool_id": "test.echo", "params": {}}
        )
        frame = render_frame(body.encode())
        for byte in frame:
            peer.socket.sendall(bytes([byte]))
        assert peer.reply()["ok"]
        peer.socket.sendall(frame + frame)
        assert [peer.reply()["ok"] for _ in range(2)] == [True, True]


@pytest.mark.parametrize("begun", [b"\x00", b"\x00\x00\x00\x09{"])
def test_a_frame_that_is_begun_and_not_ended_is_given_up(place, begun):
    with served(place) as server, Peer(place) as other:
        other.hello()
        server._frame_s = 0.05  # for the next connection: complete frames have enough time
        with Peer(place) as slow:
            slow.socket.sendall(begun)
            assert slow.code() == "frame_timeout"
            assert slow.is_hung_up()
        assert other.ask()["ok"]


def test_a_reply_that_the_peer_does_not_read_is_dropped(place):
    large = tool("test.large", lambda _params, _context: ToolOutput(ret="x" * 8_000_000))
    with served(place, large) as server, Peer(place) as deaf, Peer(place) as other:
        deaf.hello()
        assert other.ask()["ok"]
        server._frame_s = 0.05  # for later replies: both connections may read slowly
        deaf.send(tool_id="test.large")
        assert other.ask()["ok"]
        poll = select.poll()
        poll.register(deaf.socket, select.POLLHUP)
        assert poll.poll(PATIENCE_S * 1000), "still connected"
        with pytest.raises(AssertionError, match="hung up"):
            deaf.reply()


def test_another_user_gets_only_the_error_wrong_peer(place):
    with served(place, allowed_uids=frozenset({os.getuid() + 1})) as server, Peer(place) as peer:
        assert peer.code() == "wrong_peer"
        assert peer.is_hung_up()
        assert server.isolation is None


def test_a_connection_above_the_limit_is_refused_until_one_ends(place):
    with served(place):
        peers = [Peer(place) for _ in range(CONNECTIONS_MAX)]
        peers[0].hello()
        assert all(peer.ask()["ok"] for peer in peers)
        with Peer(place) as more:
            assert more.code() == "too_many_connections"
        for peer in peers:
            peer.socket.close()
        assert reaches(lambda: accepts(place))


def accepts(place: Path) -> bool:
    with Peer(place) as peer:
        return peer.ask()["ok"]


def test_after_the_deadline_a_connection_ends_and_so_does_every_new_one(place):
    with served(place, deadline_s=0.1), Peer(place) as early:
        assert early.code() == "deadline_over"
        assert early.is_hung_up()
        with Peer(place) as late:
            assert late.code() == "deadline_over"


def test_the_socket_belongs_to_its_group_and_is_removed_afterwards(place):
    with served(place, owner=(os.getuid(), os.getgid())):
        found = place.stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o660
        assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
    assert not place.exists()


def test_the_mode_does_not_depend_on_the_umask(place):
    before = os.umask(0)
    try:
        with served(place):
            assert stat.S_IMODE(place.stat().st_mode) == 0o660
    finally:
        os.umask(before)


@pytest.mark.parametrize("name", ["no/such/folder/s", "x" * 200])
def test_an_invalid_socket_path_is_refused(place, name):
    with pytest.raises(SandboxError), served(place.parent / name):
        pytest.fail("never served")


def test_closing_ends_every_thread_and_hangs_up(place, monkeypatch):
    monkeypatch.setattr("stepline.adapters.sandbox.tool_server.GRACE_S", PATIENCE_S)
    before = set(threading.enumerate())
    with served(place) as server:
        peers = [Peer(place) for _ in range(3)]
        peers[0].hello()
        assert all(peer.ask()["ok"] for peer in peers)
        assert set(threading.enumerate()) - before
        server.close()
        assert not set(threading.enumerate()) - before
        assert all(peer.is_hung_up() for peer in peers)
        for peer in peers:
            peer.socket.close()


def test_closing_does_not_wait_for_a_tool_that_does_not_end(place, caplog):
    started, ends = threading.Event(), threading.Event()

    def hang(_params, _context):
        started.set()
        ends.wait(PATIENCE_S)
        return ToolOutput(ret=1)

    with served(place, tool("test.hang", hang)) as server, Peer(place) as peer:
        peer.hello().send(tool_id="test.hang")
        assert started.wait(PATIENCE_S)
        server.close()
        assert not ends.is_set()
        assert [call.code for call in server._host.calls] == ["unfinished"]
        assert "outlive" in caplog.text
        stuck = [thread for thread in threading.enumerate() if thread.name == "supervisor-connection"]
        ends.set()
        for thread in stuck:
            thread.join(PATIENCE_S)


def test_a_server_that_was_never_entered_can_be_closed(place):
    SupervisorServer(
        place, host=make_host(), token=TOKEN, allowed_uids=frozenset(), quota=1, deadline_s=1
    ).close()
