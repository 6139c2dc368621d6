"""docs/reference/settings.md: every variable that a process reads."""

from __future__ import annotations

from typing import Final

from docs.build import DOCS
from stepline.settings import TABLE

PATH: Final = DOCS / "reference/settings.md"


def render() -> str:
    """Return the page."""
    rows = [
        f"| `{row.variable}` | {f'`{row.default}`' if row.default else 'none'} | {row.doc} |" for row in TABLE
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Generated from `stepline/settings.py`; a test keeps it in step. An empty variable counts as absent.",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
