"""An app for the tests of a stack with an agent: nothing is downloaded, built or deployed.

Source: docs/how-to/own-app.md#test-it.
"""

from __future__ import annotations

import json
from typing import Final

import aws_cdk as cdk

from stepline.local.install.agent_words import CONTEXT

_LOCAL: Final = {
    "endpoint": "http://127.0.0.1:4566",
    "oidc_issuer": "http://127.0.0.1:4567",
    "oidc_audience": "test",
}


def local_app() -> cdk.App:
    """Return an app whose agents are made as for the local stage, in a temporary folder."""
    return cdk.App(context={CONTEXT: json.dumps({"agent": "", "choices": _LOCAL})})
