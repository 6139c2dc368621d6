"""Names of the secrets that a stage stores for its tools: one for the deployment, and one for each bundle.

Each holds a JSON object in the form of its descriptor, such as `{"crm": {"token": "…"}}`. Source: docs/how-to/deploy.md#settings-and-secrets-of-a-bundle.
"""

from __future__ import annotations

from typing import Final

DEPLOYMENT: Final = ""
"""In place of a bundle's name: the deployment itself."""


def name_stage_secret(stage: str, bundle: str) -> str:
    """Return the name of a bundle's secret, or of the deployment's."""
    return f"{stage_secret_prefix(stage)}{f'bundle/{bundle}' if bundle else 'deployment'}"


def stage_secret_prefix(stage: str) -> str:
    """Return the beginning of the names of a stage's secrets."""
    return f"stepline/{stage}/secret/"
