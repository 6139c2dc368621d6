"""A task's executor container, as a thread of the test: it sends the test's messages on both sockets."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from exec_task.executor.wire import Client
from stepline.programs.frame import FrameReader, render_frame

ISOLATION = {"backend": "fargate", "seccomp": True, "no_new_privs": True, "uid": 1001}
PATIENCE_S = 60.0


class SimulatedExecutor:
    """Connects to `root/socket/control.sock`, receives a payload, and plays a part."""

    def __init__(self, root: Path, part: Callable[[SimulatedExecutor], None]) -> None:
        self.root = root
        self.payload: dict[str, Any] = {}
        self.error: BaseException | None = None
        self._part = part
        self._frames = FrameReader()
        self._bodies: list[bytes] = []
        self._connection = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._play)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._connection.close()
        if self.error:
            raise self.error

    @property
    def outputs(self) -> Path:
        return self.root / "out" / self.payload["turn"] / "outputs"

    def hello(self) -> Client:
        """Report a jail, like a program that is about to run."""
        client = Client(self.payload["socket"], self.payload["token"], reply_s=PATIENCE_S)
        client.hello(ISOLATION)
        return client

    def say(self, **message: Any) -> None:
        self._connection.sendall(render_frame(json.dumps(message).encode()))

    def log(self, text: str) -> None:
        self.say(type="log", data=base64.b64encode(text.encode()).decode())

    def end(self, returncode: int = 0, **facts: Any) -> None:
        self.say(type="ended", returncode=returncode, seconds=0.25, **facts)

    def hear(self) -> dict[str, Any]:
        """Return the next message; an empty one if the other side closed the connection."""
        while not self._bodies:
            data = self._connection.recv(65536)
            if not data:
                return {}
            self._bodies += self._frames.feed(data)
        return json.loads(self._bodies.pop(0))

    def hang_up(self) -> None:
        self._connection.close()

    def _play(self) -> None:
        try:
            self._connect()
            self.payload = self.hear()
            if self.payload:
                self._part(self)
        except BaseException as error:  # noqa: BLE001 - raised where the test waits for the thread
            self.error = error

    def _connect(self) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._connection.connect(str(self.root / "socket/control.sock"))
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.01)
            else:
                return
