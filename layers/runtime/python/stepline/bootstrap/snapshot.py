"""A function's process as a snapshot that many environments continue: what is loaded into it, what none may share.

Loaded is code, and code only: no client, no credential, no look at the clock. Whatever else the process had come to
hold is thrown away when it is restored, and made again by whoever needs it.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from typing import Final

from stepline.adapters.anthropic import client as anthropic
from stepline.adapters.aws import client

WARMED: Final[Mapping[str, tuple[str, ...]]] = {
    "authorizer": (*client.MODULES, "stepline.adapters.oidc"),
    "socket": (*client.MODULES, "stepline.ingress.message"),
    "decide": (
        *client.MODULES,
        *anthropic.MODULES,
        "stepline.bundle.assembly",
        "bundles.default.tools_descriptor",
    ),
}
"""Of each function that a person waits for, what its first call would load."""


def warm(function: str) -> None:
    """Load what a function's first call needs. It takes a second at most, and a snapshot may take minutes."""
    for name in WARMED.get(function, ()):
        importlib.import_module(name)


def forget() -> None:
    """Give up what the library keeps for the process: the session with its credentials, and the random sequence.

    Everything else it keeps hangs on the `App`, which its owner drops.
    """
    client.session.cache_clear()
    random.seed()
