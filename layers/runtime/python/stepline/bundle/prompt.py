"""The system prompt: short template files in a fixed order, then the limits and the catalogue of tools.

Its bytes depend on its arguments alone, because everything a provider caches stands behind them. What changes
from round to round is ANNOUNCE's business.
Source: docs/concepts/context.md#the-system-part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from stepline.timeline.announce import Caps

EXECUTION: Final = "execution"
TEMPLATES: Final = ("protocol", "decision", "notes", "timeline", "paths", EXECUTION, "finishing")
"""The files of `templates/`, in order."""

PROMPT_MAX_CHARS: Final = 12_000
"""Bound of the instructions without the catalogue, kept by a test: every turn pays for them."""


def system_prompt(*, catalogue: str, caps: Caps, packages: Sequence[str] | None = None) -> str:
    """Return the instructions with the caps filled in, and the catalogue behind them.

    `packages` are what programs may import, in a fixed order; None for an agent that runs no programs.
    """
    names = [name for name in TEMPLATES if name != EXECUTION or packages is not None]
    body = "\n".join(load_template(name) for name in names)
    for field, value in (
        ("{max_chars}", caps.max_chars),
        ("{max_tokens}", caps.max_tokens),
        ("{max_bytes}", caps.max_bytes),
        ("{packages}", ", ".join(packages or ()) or "none"),
    ):
        body = body.replace(field, str(value))
    return f"{body}\n{catalogue.strip()}\n"


@cache
def load_template(name: str) -> str:
    """Return the text of a template, without surrounding blank lines, ended by one line break."""
    path = Path(__file__).with_name("templates") / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() + "\n"
