"""A connection that breaks: after some frames the cable is pulled, and what was on its way is lost."""

from __future__ import annotations

import socket
from contextlib import contextmanager


class Cable:
    """Dials like `dial`, and breaks its first connections after the numbers of frames in `pulls`, one a connection."""

    def __init__(self, dial, pulls):
        self._dial = dial
        self._pulls = list(pulls)
        self.pulled = self.dialled = 0

    @contextmanager
    def __call__(self):
        with self._dial() as connection:
            self.dialled += 1
            yield Breaking(self, connection, self._pulls.pop(0) if self._pulls else None)


class Breaking:
    """What a session needs of a connection; `left` frames come through, all if it is None."""

    def __init__(self, cable, connection, left):
        self._cable = cable
        self._connection = connection
        self._left = left
        self.send = connection.send

    def recv(self, timeout=None):
        text = self._connection.recv(timeout)
        if self._left is None:
            return text
        self._left -= 1
        if self._left >= 0:
            return text
        self._left = None
        self._cable.pulled += 1
        self._connection.socket.shutdown(socket.SHUT_RDWR)
        while True:  # what had come in meanwhile is lost as well
            self._connection.recv()
