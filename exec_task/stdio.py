"""The supervisor's messages over the container's standard input and output."""

from __future__ import annotations

import os
import select
from collections import deque
from typing import Final

from exec_task.caller import HungUp
from stepline.adapters.docker.supervisor_protocol import (
    MESSAGE_BYTES_MAX,
    MESSAGE_CHUNK_BYTES,
    Blob,
    CancelProgram,
    SupervisorMessage,
    decode,
    encode,
)
from stepline.adapters.sandbox.exit_code import CANCELLED
from stepline.programs.frame import FrameReader

READ_BYTES: Final = 256 * 1024


class Stdio:
    """Messages over two descriptors, for one thread."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self._target = target
        self._frames = FrameReader(MESSAGE_BYTES_MAX)
        self._heard: deque[SupervisorMessage] = deque()

    def send(self, message: SupervisorMessage) -> None:
        """Send a message. Raises HungUp."""
        view = memoryview(encode(message))
        try:
            while view:
                view = view[os.write(self._target, view) :]
        except BrokenPipeError as error:
            raise HungUp from error

    def send_bytes(self, fd: int) -> None:
        """Send the content of an open file, in parts."""
        chunk = os.read(fd, MESSAGE_CHUNK_BYTES)
        while True:
            following = os.read(fd, MESSAGE_CHUNK_BYTES) if chunk else b""
            self.send(Blob(data=chunk, last=not following))
            if not following:
                return
            chunk = following

    def receive(self) -> SupervisorMessage:
        """Wait for the next message. Raises HungUp."""
        while not self._heard:
            self.read()
        return self._heard.popleft()

    def poll(self, timeout_s: float) -> SupervisorMessage | None:
        """Return the next message, or None if none arrives in time. Raises HungUp."""
        if not self._heard and select.select([self.source], [], [], timeout_s)[0]:
            self.read()
        return self._heard.popleft() if self._heard else None

    def hear(self) -> str:
        """Read messages while a program runs; return `cancelled` if it must end. Raises HungUp at the end of input."""
        self.read()
        return CANCELLED if any(isinstance(message, CancelProgram) for message in self._heard) else ""

    def read(self) -> None:
        """Read available input. Raises HungUp at the end of input."""
        chunk = os.read(self.source, READ_BYTES)
        if not chunk:
            raise HungUp
        self._heard += map(decode, self._frames.feed(chunk))
