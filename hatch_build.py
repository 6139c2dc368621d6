"""Put the app that is deployed into the wheel: a checkout has it at hand, an installed command line does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

APP: Final = (
    ".dockerignore",
    "app.py",
    "bundles",
    "cdk.json",
    "evals",
    "exec_task",
    "lambdas",
    "layers/*/requirements.txt",
    "package-lock.json",
    "package.json",
    "start.py",
    "web/dist",  # the chat page, if it was built
    "web/dist-serve",  # the server of doors, likewise
    "web/headers.json",
)

MADE: Final = {"__pycache__", ".knowledge"}


class AppHook(BuildHookInterface[Any]):
    """Adds the app's files below `stepline/_app`, as they lie in the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them, unless the wheel only points to a checkout."""
        if version != "editable":
            root = Path(self.root)
            files = [path.relative_to(root).as_posix() for name in APP for path in _files(root, name)]
            build_data["force_include"] |= {f"{root}/{name}": f"stepline/_app/{name}" for name in files}


def _files(root: Path, pattern: str) -> list[Path]:
    """Return the files that match, and those of folders that match, without what is made of them."""
    found = [path for top in root.glob(pattern) for path in (top.rglob("*") if top.is_dir() else [top])]
    return [one for one in sorted(found) if one.is_file() and not MADE & set(one.parts)]
