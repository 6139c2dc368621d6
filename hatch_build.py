"""Put the app that is deployed into the wheel: a checkout has it at hand, an installed command line does not."""

from __future__ import annotations

from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

APP: Final = (
    ".dockerignore",
    "app.py",
    "bundles",
    "cdk.json",
    "exec_task",
    "lambdas",
    "layers/deps/requirements.txt",
    "package-lock.json",
    "package.json",
    "stacks",
)


class AppHook(BuildHookInterface[Any]):
    """Adds the app's files below `stepline/_app`, as they lie in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them, unless the wheel only points to a checkout."""
        if version != "editable":
            build_data["force_include"] |= {f"{self.root}/{name}": f"stepline/_app/{name}" for name in APP}
