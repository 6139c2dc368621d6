"""A server of the local stage on loopback: alone on its port, and known by the identity that its start gave it.

A port that answers is not yet ours: another stage, or any program, may have been faster. So a service answers `HEALTH` with a
random text that only the one who started it can know.
"""

from __future__ import annotations

import os
from http.server import ThreadingHTTPServer
from typing import Final

HEALTH: Final = "/_stepline/health"
IDENTITY: Final = "SERVICE_IDENTITY"
"""The variable with the text that a service answers `HEALTH` with."""


def own_identity() -> str:
    """Return the identity of this process, "" for a server that nobody started as a service."""
    return os.environ.get(IDENTITY, "")  # noqa: TID251 - of this one process, no setting


class OwnServer(ThreadingHTTPServer):
    """A server that shares its port with no other process: some versions of Python let two of one user have the same."""

    allow_reuse_port = False
