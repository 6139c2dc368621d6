"""docs/reference/settings.md: every variable that a process reads."""

from __future__ import annotations

from typing import Final

from docs.build import DOCS
from stepline.settings import TABLE, Setting, print_value

PATH: Final = DOCS / "reference/settings.md"


def render() -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Settings",
            "",
            "Generated from `stepline/settings.py`; a test compares them. An empty variable counts as absent. In AWS they follow from the",
            "[choices of a stage](choices.md).",
            "",
            "| variable | default | unit | values | meaning |",
            "|---|---|---|---|---|",
            *map(_row, TABLE.values()),
            "",
        ]
    )


def _row(row: Setting) -> str:
    default = print_value(row.default)
    cells = (f"`{row.variable}`", f"`{default}`" if default else "none", row.unit, _values(row), row.doc)
    return f"| {' | '.join(cells)} |"


def _values(row: Setting) -> str:
    words = [", ".join(f"`{word}`" for word in row.choices), row.bounds, "secret" if row.secret else ""]
    said = next(filter(None, words), "")
    return f"{said}, or the default counts" if row.or_default else said
