"""The bundle-specific parts of an agent, and the modules that define them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Final

from stepline.bundle.skill import Skill, check_skills, render_skills, skill_shelf
from stepline.errors import InputError
from stepline.tools.context import Shelf
from stepline.tools.knowledge import KnowledgeRead, KnowledgeSearch, knowledge_shelf, knowledge_tool
from stepline.tools.registry import Tool

TOOLS: Final = "TOOLS"
SKILLS: Final = "SKILLS"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Tools and skills by module name, and the functions of a knowledge space.

    Without `search` the agent has no `react.search_knowledge`, without `read` there are no paths `ks:`.
    """

    tools_module: str = ""
    skills_module: str = ""
    search: KnowledgeSearch | None = None
    read: KnowledgeRead | None = None

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The bundle's own tools. Raises the errors of `load_tools`."""
        own = load_tools(self.tools_module) if self.tools_module else ()
        return own if self.search is None else (*own, knowledge_tool(self.search))

    @property
    def instructions(self) -> str:
        """The system text about the parts, or "". Raises the errors of `load_skills`."""
        return render_skills(self._skills)

    @property
    def shelves(self) -> Mapping[str, Shelf]:
        """The content readable by path outside the conversation, by path family.

        Raises the errors of `load_skills`.
        """
        shelves: dict[str, Shelf] = {}
        if self._skills:
            shelves["sk"] = skill_shelf(self._skills)
        if self.read is not None:
            shelves["ks"] = knowledge_shelf(self.read)
        return shelves

    @property
    def _skills(self) -> tuple[Skill, ...]:
        return load_skills(self.skills_module) if self.skills_module else ()


@cache
def load_tools(name: str) -> tuple[Tool, ...]:
    """Return the `TOOLS` of a module.

    Raises:
        InputError: `tools_module_not_found`; `tools_module_invalid`, it has no tools, or other values among
            them.
    """
    module = load_module(name, code="tools_module_not_found")
    return _rows(module, TOOLS, Tool, code="tools_module_invalid")


@cache
def load_skills(name: str) -> tuple[Skill, ...]:
    """Return the `SKILLS` of a module.

    Raises:
        InputError: `skills_module_not_found`; `skills_module_invalid`, as for tools; `skill_invalid`, by its id.
    """
    module = load_module(name, code="skills_module_not_found")
    skills: tuple[Skill, ...] = _rows(module, SKILLS, Skill, code="skills_module_invalid")
    check_skills(skills)
    return skills


def load_module(name: str, *, code: str) -> ModuleType:
    """Import a module named by a bundle or a setting; InputError `code` if it does not exist.

    An error of the module's own code, including a missing import in it, is raised unchanged.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"{name[:80]!r} is no module's name", code=code)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and f"{name}.".startswith(f"{missing}."):
            raise InputError(f"there is no module {name}", code=code) from error
        raise


def _rows(module: ModuleType, attribute: str, kind: type[Any], *, code: str) -> tuple[Any, ...]:
    rows = getattr(module, attribute, None)
    if not isinstance(rows, list | tuple):
        raise InputError(f"{module.__name__} has no list {attribute}", code=code)
    if wrong := [row for row in rows if not isinstance(row, kind)]:
        raise InputError(
            f"{attribute} of {module.__name__} holds {wrong[0]!r:.80}, which is no {kind.__name__}", code=code
        )
    return tuple(rows)
