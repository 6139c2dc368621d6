"""The document by which a page finds its stage: where to sign in, and where to ask. Everybody may read it.

The chat page has it as `config.json`; for a site of one's own it is an output of the ingress stack.
Source: docs/how-to/deploy.md#browsers.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from stacks.identity import Trust
from stacks.stage import Stage


def make_page_config(
    stage: Stage, trust: Trust, *, http_url: str, socket_url: str, dashboards: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the document, without secrets: the addresses, the public client of the sign-in, and what the stage offers.

    `token` is the one that the stage takes: of an audience that is not the client's, the access token is.
    """
    return {
        "issuer": trust.oidc_issuer,
        "client_id": stage.oidc_client_id or trust.oidc_audience,
        "scopes": list(stage.oidc_scopes),
        "http_url": http_url,
        "socket_url": socket_url,
        "stage": stage.name,
        "inspect": stage.inspect,
        "uploads": True,
        "version": version("stepline"),
        "token": "access" if stage.oidc_client_id not in ("", stage.oidc_audience) else "id",
        "ui": list(dashboards),
    }
