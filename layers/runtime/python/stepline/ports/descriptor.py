"""Tools' access to the deployment's descriptors: plain settings by path, secrets by name.

A stage stores a secret for the deployment, and one for each bundle that has some: a JSON object in the form of its
descriptor, such as `{"crm": {"token": "…"}}`. Source: docs/how-to/deploy.md#settings-and-secrets-of-a-bundle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

DEPLOYMENT: Final = ""
"""In place of a bundle's name: the deployment itself."""


def name_stage_secret(stage: str, bundle: str) -> str:
    """Return the name of a bundle's secret, or of the deployment's."""
    return f"{stage_secret_prefix(stage)}{f'bundle/{bundle}' if bundle else 'deployment'}"


def stage_secret_prefix(stage: str) -> str:
    """Return the beginning of the names of a stage's secrets."""
    return f"stepline/{stage}/secret/"


class SettingsReader(Protocol):
    """The descriptors without secrets."""

    def get_settings(self) -> Mapping[str, Any]:
        """Return the whole assembly."""

    def get_plain(self, path: str, default: Any = None) -> Any:
        """Return the value at a dotted path of the assembly, or of the active bundle's properties after `b:`."""


class SecretReader(Protocol):
    """The descriptors of secrets. Only the supervisor has one."""

    def get_secret(self, path: str) -> str:
        """Return the secret at a dotted path, or the active bundle's after `b:`. Raises ToolError `secret_missing`."""


class StageSecrets(Protocol):
    """The secrets that a deployment stores for its tools: a JSON object for itself and one for each bundle."""

    def read(self, bundle: str) -> str:
        """Return the text for a bundle by its name, or for the deployment; "" if there is none. Raises DependencyError."""
