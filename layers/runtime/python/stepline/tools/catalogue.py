"""The tools every agent starts with."""

from __future__ import annotations

from stepline.tools.plan import PLAN_TOOL
from stepline.tools.read import READ_TOOL
from stepline.tools.registry import Registry
from stepline.tools.write import WRITE_TOOL


def default_registry() -> Registry:
    """Return the built-in tools, in the order of the catalogue."""
    return Registry((READ_TOOL, WRITE_TOOL, PLAN_TOOL))
