"""Imports of a function before its first call, and the process state that a snapshot may keep.

Lambda gives a function a whole core while it initialises, whatever its memory setting, so imports belong there and not
in the first request. A snapshot keeps only code: no client, no credential, no clock time. Everything else that the
process has created is dropped when an environment is restored, and created again on its next use.
Source: serverlessland.com, "Utilize initialization phase"; docs.aws.amazon.com/lambda, "Execution environment lifecycle".
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Mapping
from typing import Final

from stepline.adapters.aws import client

_RUNTIME: Final = "AWS_LAMBDA_RUNTIME_API"
_HANDLER: Final = "_HANDLER"
_INITIALIZATION: Final = "AWS_LAMBDA_INITIALIZATION_TYPE"
_PROVIDER: Final = "STEPLINE_MODEL_PROVIDER"
_TRACING: Final = "STEPLINE_TRACING"
_AWS: Final = "stepline.adapters.aws.client"
_TRACES: Final = "stepline.adapters.tracing.traces"
_AGENT: Final = (
    "stepline.bootstrap.agent_choice",
    "stepline.bundle.assembly",
    "bundles.default.tools_descriptor",
)
WARMED: Final[Mapping[str, tuple[str, ...]]] = {
    "authorizer": (_AWS, "stepline.adapters.oidc"),
    "socket": (_AWS, "stepline.ingress.message"),
    "api": (_AWS,),
    "search": (_AWS, "stepline.adapters.embedded.ranking", "stepline.log.memory_source"),
    "stream": (_AWS,),
    "decide": (_AWS, *_AGENT),
    "act": (_AWS, *_AGENT),
    "execute": (_AWS,),
    "serve": (_AWS, *_AGENT),
    "output": (_AWS,),
    "preflight": (_AWS,),
    "close": (_AWS,),
    "sweeper": (_AWS,),
    "eraser": (_AWS,),
}
"""Modules that the first call of each function needs."""
STEPS: Final = ("decide", "act", "close")
"""The functions that send spans on every call, if the stage has traces."""


def initialise(environ: Mapping[str, str]) -> None:
    """Load the modules for a function's first call, in a process that Lambda has started.

    The `MODULES` of an adapter are the parts of a library that it loads on first use. The first AWS client reads the
    description of its service, which the session keeps for later clients.
    """
    if _RUNTIME not in environ:
        return
    function = environ[_HANDLER].split(".")[1]
    asked = (_transport(environ.get(_PROVIDER, "anthropic")),) if function == "decide" else ()
    # A takeover is rare, so the sweeper loads these modules only then.
    traces = (_TRACES,) if environ.get(_TRACING, "off") != "off" and function in STEPS else ()
    for name in (*WARMED[function], *asked, *traces):
        for part in getattr(importlib.import_module(name), "MODULES", ()):
            importlib.import_module(part)
    if environ.get(_INITIALIZATION) != "snap-start":
        client.connect("dynamodb", read_timeout_s=1)


def _transport(provider: str) -> str:
    """Return the transport module that Decide uses for the provider."""
    from stepline.bootstrap.choice import PROVIDERS  # noqa: PLC0415 - few other functions load it

    return PROVIDERS[provider].transport


def forget() -> None:
    """Drop the library's process state: the session with its credentials, and the random sequence.

    Everything else belongs to the handler's app, which the handler drops.
    """
    client.session.cache_clear()
    random.seed()
