"""The tools that this bundle adds to those of every agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline import Tool
from stepline.tools.web.web_fetch import WEB_FETCH_TOOL
from stepline.tools.web.web_search import WEB_SEARCH_TOOL

TOOLS: Final[Sequence[Tool]] = (WEB_SEARCH_TOOL, WEB_FETCH_TOOL)
