"""The tools of every agent."""

from __future__ import annotations

from collections.abc import Iterable

from stepline.tools.documents.rendering_tools import RENDERING_TOOLS
from stepline.tools.execute_code import exec_tool
from stepline.tools.fetch import FETCH_TOOL
from stepline.tools.hide import HIDE_TOOL
from stepline.tools.memory.memsearch import MEMSEARCH_TOOL
from stepline.tools.plan import PLAN_TOOL
from stepline.tools.pull import PULL_TOOL
from stepline.tools.read.run import READ_TOOL
from stepline.tools.registry import Registry, Tool
from stepline.tools.web.web_fetch import WEB_FETCH_TOOL
from stepline.tools.web.web_search import WEB_SEARCH_TOOL
from stepline.tools.workfiles.checkout import CHECKOUT_TOOL
from stepline.tools.workfiles.patch import PATCH_TOOL
from stepline.tools.workfiles.rg import RG_TOOL
from stepline.tools.write import WRITE_TOOL


def agent_registry(tools: Iterable[Tool], *, executes: bool = False) -> Registry:
    """Return an agent's tools in catalogue order: common tools, its bundle's, and with `executes` those for programs.

    Raises ValueError for a duplicate id.
    """
    files = (READ_TOOL, WRITE_TOOL, PATCH_TOOL, RG_TOOL, PULL_TOOL, CHECKOUT_TOOL)
    own = (*files, PLAN_TOOL, HIDE_TOOL, MEMSEARCH_TOOL)
    return Registry((*own, *tools, *((exec_tool(), FETCH_TOOL, *RENDERING_TOOLS) if executes else ())))


def default_registry(*, executes: bool = False) -> Registry:
    """Return the tools of an agent whose bundle has only the library's own tools."""
    return agent_registry((WEB_SEARCH_TOOL, WEB_FETCH_TOOL), executes=executes)
