"""A port for a server that is given its port, and that may stop and start again there."""

from __future__ import annotations

import random
import socket

PORTS = range(10_000, 32_768)
"""Below the ports that a system assigns automatically: no connection and no server of another test uses them."""


def free_port() -> int:
    """Return a free port of loopback."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
