"""Attempts on the supervisor by its socket, frame by frame. Runs inside the sandbox."""

import contextlib
import json
import os
import socket
import threading

HOST = {}
CONTEXT = json.loads(os.environ.get("AGENT_IO_CONTEXT", "{}"))


def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(CONTEXT["socket"])
    return connection


def exchange(body, connection=None):
    """Send a body in a frame and return the code that came back: `ok`, an error's, or `hung up`."""
    connection = connection or connect()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has hung up, and said why before
        connection.sendall(len(data).to_bytes(4, "big") + data)
    return reply(connection)


def reply(connection):
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        try:
            more = connection.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            return "hung up"
        data += more
    answer = json.loads(data[4:])
    return "ok" if answer["ok"] else answer["error"]["code"]


def request(**changes):
    whole = {
        "v": 1,
        "id": 1,
        "type": "call",
        "token": CONTEXT["token"],
        "tool_id": "react.read",
        "params": {},
    }
    return {key: value for key, value in {**whole, **changes}.items() if value is not None}


def ask(**changes):
    return lambda: exchange(request(**changes))


def body(data):
    return lambda: exchange(data)


def oversized():
    connection = connect()
    connection.sendall((0xFFFFFFFF).to_bytes(4, "big"))
    return reply(connection)


def just_oversized():
    return exchange(b'{"v":1,"pad":"' + b"x" * (8 << 20) + b'"}')


def too_many_connections():
    """Return how many of forty connections are served at the same time."""
    served = []
    for _ in range(40):
        try:
            connection = connect()
            if exchange(request(tool_id="none"), connection) == "unknown_tool":
                served.append(connection)
        except BlockingIOError:
            continue  # not even the queue has room
    return len(served) <= 16


def slow():
    """Begin a frame and never end it; the supervisor gives it 10 s."""
    return reply(STARTED["slow"])


def trickle():
    """Send a frame byte by byte, so that something arrives all the time."""
    return STARTED["trickle"].get()


class Trickle(threading.Thread):
    """Feeds one frame as slowly as it may until an answer arrives."""

    def __init__(self):
        super().__init__(daemon=True)
        self.answer = ""
        self.start()

    def run(self):
        connection = connect()
        connection.sendall((1000).to_bytes(4, "big"))
        connection.settimeout(0.5)
        for _ in range(120):
            try:
                connection.sendall(b" ")
                self.answer = reply(connection)
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                self.answer = "hung up"
            return

    def get(self):
        self.join(60)
        return self.answer


STARTED = {}


def begin_slowly():
    """Start what takes ten seconds beside everything else."""
    STARTED["trickle"] = Trickle()
    STARTED["slow"] = connect()
    STARTED["slow"].sendall(b"\0\0")


UNKNOWN = ("unknown_tool",)
FRAMES = {
    "a token that is not the run's": (ask(token="x" * 43), ("unauthorized",)),
    "no token": (ask(token=None), ("unauthorized",)),
    "a token of another type": (ask(token=[CONTEXT.get("token")]), ("unauthorized", "bad_frame")),
    "a second hello": (ask(type="hello", isolation={"uid": 0}), ("already_confined",)),
    "a request of another kind": (ask(type="shutdown"), ("unknown_type",)),
    "a forged version": (ask(v=2), ("bad_version",)),
    "a version that is nearly ours": (ask(v=True), ("bad_version", "bad_frame")),
    "a tool that does not exist": (ask(tool_id="os.system", params={"command": "id"}), UNKNOWN),
    "a tool by attribute": (ask(tool_id="__class__"), UNKNOWN),
    "a tool by attributes of a tool": (ask(tool_id="react.read.__globals__"), UNKNOWN),
    "a tool by attribute of an alias": (ask(tool_id="react.__class__"), UNKNOWN),
    "a tool that is no text": (ask(tool_id={"react": "read"}), (*UNKNOWN, "bad_params")),
    "a tool that was not granted": (
        ask(tool_id="ctx_tools.fetch_ctx", params={"ref": "x"}),
        ("tool_not_allowed",),
    ),
    "a tool of the agent alone": (ask(tool_id="react.write", params={"path": "x"}), ("tool_not_allowed",)),
    "parameters that are a list": (ask(params=["x"]), ("bad_params",)),
    "parameters that the tool has not": (ask(params={"self": 1}), ("bad_params",)),
    "a frame that is no JSON": (body(b"\xff\xfe\x00"), ("bad_frame",)),
    "a frame that is no object": (body(b"[1,2,3]"), ("bad_frame",)),
    "a frame nested without end": (body(b'{"v":1,"id":1,"a":' + b"[" * 200_000), ("bad_frame",)),
    "a frame without an id": (ask(id=None), ("bad_frame",)),
    "a frame that announces 4 GiB": (oversized, ("frame_too_large",)),
    "a frame of 8 MiB and a little": (just_oversized, ("frame_too_large", "hung up")),
    "a frame that never ends": (slow, ("frame_timeout",)),
    "a frame byte by byte": (trickle, ("frame_timeout", "hung up")),
    "forty connections at once": (too_many_connections, (True,)),
}
