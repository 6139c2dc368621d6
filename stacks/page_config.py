"""The document by which a page finds its stage: where to sign in, and where to ask. Everybody may read it.

It is an output of the ingress stack, which a site serves as `config.json`.
Source: docs/how-to/deploy.md#browsers.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from stacks.identity import Trust
from stacks.stage import Stage


def make_page_config(stage: Stage, trust: Trust, *, http_url: str, socket_url: str) -> dict[str, Any]:
    """Return the document, without secrets: the addresses, the public client of the sign-in, and what the stage offers."""
    return {
        "issuer": trust.oidc_issuer,
        "client_id": trust.oidc_audience,
        "scopes": list(stage.oidc_scopes),
        "http_url": http_url,
        "socket_url": socket_url,
        "stage": stage.name,
        "inspect": stage.inspect,
        "uploads": True,
        "version": version("stepline"),
    }
