from __future__ import annotations

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from exec_task.executor.wire import PARALLEL_MAX, Client, ToolCallError
from stepline.adapters.sandbox.tool_server import CONNECTIONS_MAX, SupervisorServer
from stepline.programs import frame
from stepline.programs.frame import FrameReader, render_frame
from stepline.tools.context import ToolOutput
from tests.unit.programs.tool_host import make_host, tool

TOKEN = "t0ken"
PATIENCE_S = 60.0
CONFINED = {"backend": "process", "seccomp": True}


@pytest.fixture
def place():
    with TemporaryDirectory(prefix="sv-") as folder:
        yield Path(folder) / "supervisor.sock"


@contextmanager
def served(place, *tools, deadline_s=60.0):
    given = {"token": TOKEN, "allowed_uids": frozenset({os.getuid()}), "quota": 10_000}
    with SupervisorServer(place, host=make_host(*tools), deadline_s=deadline_s, **given) as server:
        yield server


@contextmanager
def called(place, token=TOKEN, **options):
    client = Client(str(place), token, **options)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def answering(place, *answers: bytes):
    """Act as a supervisor that answers each connection's first request with the next of these bytes, then closes it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place))
    listener.listen()

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                reader = FrameReader()
                while not reader.feed(connection.recv(65536)):
                    pass
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
        listener.close()


def code(client: Client, tool_id="test.echo", **params) -> str:
    with pytest.raises(ToolCallError) as refused:
        client.call(tool_id, params)
    return refused.value.code


def test_both_sides_use_the_same_limits():
    from exec_task.executor import wire
    from stepline.programs.request_gate import PROTOCOL_VERSION

    assert (wire.REQUEST_BYTES_MAX, wire.REPLY_BYTES_MAX) == (frame.REQUEST_BYTES_MAX, frame.REPLY_BYTES_MAX)
    assert wire.HEADER_BYTES == frame.HEADER_BYTES
    assert wire.VERSION == PROTOCOL_VERSION
    assert wire.PARALLEL_MAX < CONNECTIONS_MAX


def test_a_call_returns_the_value_of_the_tool(place):
    with served(place) as server, called(place) as client:
        client.hello(CONFINED)
        assert server.isolation is not None
        assert client.call("test.echo", {"text": "Grüße 🌍", "n": [1, None, 0.5]}) == {
            "text": "Grüße 🌍",
            "n": [1, None, 0.5],
        }


def test_bytes_and_paths_are_parameters_and_bytes_come_back(place):
    with served(place) as server, called(place) as client:
        client.hello(CONFINED)
        assert client.call(
            "test.echo", {"a": [{"b": b"\x00\xff"}], "c": bytearray(b"x"), "p": Path("a/b")}
        ) == {
            "a": [{"b": b"\x00\xff"}],
            "c": b"x",
            "p": "a/b",
        }
        assert server.isolation is not None


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, "\ud800"])
def test_a_value_that_json_cannot_represent_raises_before_anything_is_sent(place, value):
    with called(place) as client, pytest.raises((TypeError, ValueError)):
        client.call("test.echo", {"value": value})


def test_a_refusal_is_an_error_with_its_code(place):
    with served(place), called(place) as client, called(place, token="guess") as stranger:
        assert code(client) == "hello_required"
        client.hello(CONFINED)
        assert code(client, "test.fly") == "unknown_tool"
        assert code(client, "test.refuse", kind="tool", code="own") == "own"
        assert code(stranger) == "unauthorized"
        with pytest.raises(ToolCallError, match="already_confined"):
            client.hello(CONFINED)


def test_a_request_that_is_too_large_is_not_sent(place):
    with called(place) as client:
        assert code(client, text="x" * frame.REQUEST_BYTES_MAX) == "frame_too_large"


def test_a_call_waits_for_a_supervisor_that_starts_later(place):
    with called(place) as client, ThreadPoolExecutor(1) as pool:
        hello = pool.submit(client.hello, CONFINED)
        with served(place) as server:
            hello.result(PATIENCE_S)
            assert server.isolation is not None


def test_a_call_fails_if_the_supervisor_never_starts(place):
    with called(place, connect_s=0.05) as client:
        assert code(client) == "no_supervisor"


def test_one_connection_serves_many_calls(place):
    with served(place) as server, called(place) as client:
        client.hello(CONFINED)
        for _ in range(5):
            client.call("test.echo", {})
        assert len(server._threads) == 1


def test_threads_call_in_parallel(place):
    together = threading.Barrier(PARALLEL_MAX, timeout=PATIENCE_S)

    def meet(params, _context):
        together.wait()
        return ToolOutput(ret=params["n"])

    with (
        served(place, tool("test.meet", meet)),
        called(place) as client,
        ThreadPoolExecutor(3 * PARALLEL_MAX) as pool,
    ):
        client.hello(CONFINED)
        calls = list(pool.map(lambda n: client.call("test.meet", {"n": n}), range(3 * PARALLEL_MAX)))
        assert calls == list(range(3 * PARALLEL_MAX))


# Python 3.12 warns about a fork with threads: these belong to the supervisor, and the children do not use them.
forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@forks
def test_a_forked_child_calls_over_its_own_connection(place):
    with served(place), called(place) as client:
        client.hello(CONFINED)
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writable, str(client.call("test.echo", {"from": "child"})).encode())
            finally:
                os._exit(0)
        os.close(writable)
        assert client.call("test.echo", {"from": "parent"}) == {"from": "parent"}
        with os.fdopen(readable) as pipe:
            assert pipe.read() == "{'from': 'child'}"
        os.waitpid(child, 0)
        assert client.call("test.echo", {}) == {}


@forks
def test_all_children_of_a_pool_can_call(place):
    with served(place), called(place) as client:
        client.hello(CONFINED)
        children = []
        for n in range(CONNECTIONS_MAX + 4):
            child = os.fork()
            if child == 0:
                done = 1
                try:
                    done = int(client.call("test.echo", {"n": n}) != {"n": n})
                finally:
                    os._exit(done)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def test_a_call_is_retried_while_the_supervisor_is_full(place):
    full = b'{"v":1,"id":0,"ok":false,"error":{"code":"too_many_connections","message":"full"}}'
    done = b'{"v":1,"id":1,"ok":true,"result":5}'
    with (
        answering(place, render_frame(full), render_frame(full), render_frame(done)),
        called(place) as client,
    ):
        assert client.call("test.echo", {}) == 5


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "connection_lost"),
        (b"\x00\x00", "connection_lost"),
        (render_frame(b"{}")[:-1], "connection_lost"),
        (b"\xff\xff\xff\xff", "reply_too_large"),
        (render_frame(b"[]"), "bad_frame"),
    ],
)
def test_an_invalid_reply_is_an_error(place, answer, expected):
    with answering(place, answer), called(place) as client:
        assert code(client) == expected


def test_a_reply_that_does_not_come_is_not_waited_for_forever(place):
    silent = threading.Event()
    with (
        served(place, tool("test.hang", lambda _p, _c: ToolOutput(ret=silent.wait(PATIENCE_S)))),
        called(place, reply_s=0.05) as client,
    ):
        with called(place) as patient:
            patient.hello(CONFINED)
        try:
            assert code(client, "test.hang") == "reply_timeout"
        finally:
            silent.set()


def test_every_call_after_the_deadline_is_refused_with_its_code(place):
    with served(place, deadline_s=0.0), called(place) as client:
        assert [code(client), code(client)] == ["deadline_over", "deadline_over"]
