"""The supervisor's messages over the container's standard input and output."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final

from exec_task.caller import HungUp
from stepline.adapters.docker.supervisor_protocol import (
    MESSAGE_BYTES_MAX,
    MESSAGE_CHUNK_BYTES,
    Answered,
    Asked,
    Blob,
    CancelProgram,
    SupervisorMessage,
    decode,
    encode,
)
from stepline.adapters.sandbox.exit_code import CANCELLED
from stepline.errors import DependencyError
from stepline.model.program.served_call import SERVED_S, ServedAnswer, ServedCall
from stepline.programs.frame import FrameReader

READ_BYTES: Final = 256 * 1024


ANSWER_S: Final = SERVED_S + 30
"""The time for the answer of a call: longer than the function that makes it has."""


class Stdio:
    """Messages over two descriptors, read by one thread; others may ask for calls meanwhile."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self._target = target
        self._frames = FrameReader(MESSAGE_BYTES_MAX)
        self._heard: deque[SupervisorMessage] = deque()
        self._sending = threading.Lock()
        self._asked: dict[int, SimpleQueue[ServedAnswer | None]] = {}
        self._ids = count(1)

    def send(self, message: SupervisorMessage) -> None:
        """Send a message. Raises HungUp."""
        view = memoryview(encode(message))
        try:
            with self._sending:
                while view:
                    view = view[os.write(self._target, view) :]
        except BrokenPipeError as error:
            raise HungUp from error

    def ask(self, call: ServedCall) -> ServedAnswer:
        """Have the other side make a call, from any thread but the reading one. Raises DependencyError."""
        number, answers = next(self._ids), SimpleQueue[ServedAnswer | None]()
        self._asked[number] = answers
        try:
            self.send(Asked(id=number, call=call))
            answer = answers.get(timeout=ANSWER_S)
        except (HungUp, Empty) as error:
            raise DependencyError("the call was not answered") from error
        finally:
            del self._asked[number]
        if answer is None:
            raise DependencyError("the call was not made")
        return answer

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
        for message in map(decode, self._frames.feed(chunk)):
            if not isinstance(message, Answered):
                self._heard.append(message)
            elif message.id in self._asked:
                self._asked[message.id].put(message.answer)
