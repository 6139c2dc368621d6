"""The generated pages of the documentation, one module each; `make docs` writes them.

The folder is the table: every module except `__main__` is a page, with its path in `PATH` and its text from
`render()`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final, Protocol, cast

DOCS: Final = Path(__file__).parents[1]

PAGES: Final = tuple(sorted(module.name for module in iter_modules(__path__) if module.name != "__main__"))
SYNTHESISED: Final = ("access", "cost", "scale")
"""Pages that load the CDK: they are imported on demand, and their tests are in tests/stacks."""


class Page(Protocol):
    """The interface of every module here."""

    PATH: Path

    def render(self) -> str:
        """Return the page's text."""
        ...


def load(name: str) -> Page:
    """Return a page's module."""
    return cast("Page", import_module(f"{__name__}.{name}"))
