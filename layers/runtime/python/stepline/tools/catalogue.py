"""The tools every agent starts with."""

from __future__ import annotations

from stepline.tools.execute import exec_tool
from stepline.tools.fetch import FETCH_TOOL
from stepline.tools.plan import PLAN_TOOL
from stepline.tools.pull import PULL_TOOL
from stepline.tools.read import READ_TOOL
from stepline.tools.registry import Registry
from stepline.tools.web_search import WEB_SEARCH_TOOL
from stepline.tools.write import WRITE_TOOL


def default_registry(*, executes: bool = False) -> Registry:
    """Return the built-in tools, in the order of the catalogue; those for programs only where programs run."""
    if not executes:
        return Registry((READ_TOOL, WRITE_TOOL, PLAN_TOOL, WEB_SEARCH_TOOL))
    return Registry((READ_TOOL, WRITE_TOOL, PULL_TOOL, PLAN_TOOL, WEB_SEARCH_TOOL, exec_tool(), FETCH_TOOL))
