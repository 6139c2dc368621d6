"""The parts that all functions share: settings, ports, and the variables of a remote supervisor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from stepline.log.bindings import Ports
    from stepline.settings import Settings


@dataclass(frozen=True)
class App:
    """The ports of a deployment, wired once per process. `handed` are variables for a remote supervisor. Secret.

    Only an app that `runs_tools` has the ports of tools: the web, MCP servers, and the secrets of the deployment.
    """

    runs_tools: ClassVar[bool] = False
    settings: Settings
    ports: Ports
    handed: Mapping[str, str] = field(default_factory=dict, repr=False)
