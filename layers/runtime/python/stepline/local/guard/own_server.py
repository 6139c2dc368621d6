"""A server of the local stage on loopback: alone on its port, and identified by a value that it gets at its start.

An open port is not necessarily ours: another stage, or any program, may have been faster. So a service answers `HEALTH`
with a random text that only its starter knows.
"""

from __future__ import annotations

import os
from http.server import ThreadingHTTPServer
from typing import Final

HEALTH: Final = "/_stepline/health"
IDENTITY: Final = "SERVICE_IDENTITY"
"""The variable with the text that a service returns for `HEALTH`."""


def own_identity() -> str:
    """Return the identity of this process, "" for a server that was not started as a service."""
    return os.environ.get(IDENTITY, "")  # noqa: TID251 - of this one process, not a setting


class OwnServer(ThreadingHTTPServer):
    """A server with a port of no other process: some versions of Python let two processes of one user share it."""

    allow_reuse_port = False
