"""A function's process as a snapshot that many environments continue: code is loaded into it, and nothing else.

No client, no credential, no time of the clock: everything that the process has made until then is dropped when an
environment is restored, and made again on its next use.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from typing import Final

from stepline.adapters.aws import client

WARMED: Final[Mapping[str, tuple[str, ...]]] = {
    "authorizer": ("stepline.adapters.aws.client", "stepline.bootstrap.token_identity"),
    "socket": ("stepline.adapters.aws.client", "stepline.ingress.message"),
    "decide": (
        "stepline.adapters.aws.client",
        "stepline.adapters.anthropic.client",
        "stepline.bundle.assembly",
        "bundles.default.tools_descriptor",
    ),
}
"""Modules that the first call loads, for each function that a person waits for."""


def warm(function: str) -> None:
    """Load what a function's first call needs. It takes a second at most, and a snapshot may take minutes.

    The `MODULES` of an adapter are the parts of an SDK that it loads on first use.
    """
    for name in WARMED.get(function, ()):
        for part in getattr(importlib.import_module(name), "MODULES", ()):
            importlib.import_module(part)


def forget() -> None:
    """Drop what the library keeps for the process: the session with its credentials, and the random sequence.

    Everything else belongs to the handler's app, which the handler drops.
    """
    client.session.cache_clear()
    random.seed()
