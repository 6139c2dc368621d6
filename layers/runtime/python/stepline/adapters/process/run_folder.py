"""The folder of one run on this machine's disk, and the cell that looks at it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from stepline.adapters.process.fork_server import Cell, ForkServer
from stepline.adapters.process.payload import GID, UID
from stepline.adapters.sandbox.tree import remove_tree

_OWN: Final = 0o700
_PASSABLE: Final = 0o710


class RunFolder:
    """`work` and `out` belong to the program, `socket` does not; above them nobody else gets in.

    A server without privilege has one user only: then the mounts of the cell alone keep the socket's folder.
    """

    def __init__(self, server: ForkServer) -> None:
        self.name = secrets.token_hex(8)
        self.path = server.runs / self.name
        self.work, self.out, self.socket = (self.path / place for place in ("work", "out", "socket"))
        self.owner = (UID, GID) if server.privileged else None
        self.path.mkdir(_OWN)
        for place in (self.work, self.out):
            place.mkdir(_OWN)
            self.give(place)
        self.socket.mkdir(_OWN)
        if server.privileged:
            os.chown(self.socket, -1, GID)
            self.socket.chmod(_PASSABLE)
        server.ask(self.name)
        self._server = server

    def give(self, path: Path) -> None:
        """Make a file or folder the program's."""
        if self.owner:
            os.chown(path, *self.owner)

    def cell(self) -> Cell:
        """Return the cell, as soon as it stands. Raises SandboxError."""
        return self._server.take()

    def remove(self) -> bool:
        """Remove the folder with whatever is in it; true if nothing is left."""
        return remove_tree(self.path)
