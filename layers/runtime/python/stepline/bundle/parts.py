"""The bundle-specific parts of an agent, and the modules that define them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stepline.bundle.namespaces.namespace_resolver import NamespaceResolver, check_resolvers, resolve_with
from stepline.bundle.property import load_module
from stepline.bundle.skills.skill import Skill, check_skills
from stepline.bundle.skills.skill_choice import choose_skills, merge_skills, patterns_of
from stepline.bundle.skills.skill_folder import BUILT_IN, load_folder
from stepline.errors import InputError
from stepline.loop.agent import NO_HOOKS, Hooks
from stepline.tools.context import Resolve, Shelf, ToolServices
from stepline.tools.knowledge import KnowledgeRead, KnowledgeSearch, knowledge_shelf, knowledge_tool
from stepline.tools.registry import Tool

if TYPE_CHECKING:
    from stepline.tools.served.program_calls import ProgramCalls  # most bundles declare none

if TYPE_CHECKING:
    from stepline.tools.typed.result_type import ResultType

TOOLS: Final = "TOOLS"
TOOLS_SPECS: Final = "TOOLS_SPECS"
TOOL_RUNTIME: Final = "TOOL_RUNTIME"
MCP_TOOL_SPECS: Final = "MCP_TOOL_SPECS"
SKILLS: Final = "SKILLS"
CUSTOM_SKILLS_ROOT: Final = "CUSTOM_SKILLS_ROOT"
AGENTS_CONFIG: Final = "AGENTS_CONFIG"


LoadHook: TypeAlias = Callable[[ToolServices], Any]
"""Takes the deployment's `settings`, `secrets` and `model`; its result is ignored."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Tools and skills by module name, the bundle's package, the functions of a knowledge space, and the hooks.

    `on_load` runs once in a process before the first agent is made of them. Without `search` the agent has no
    `react.search_knowledge`, without `read` there are no paths `ks:`. `requests` are questions that the search answers. The
    functions of the `resolvers` are plain ones. `program_calls` are made for programs by a function. `result` is a JSON
    schema or a type, None for an agent that answers in words.
    """

    tools_module: str = ""
    skills_module: str = ""
    bundle: str = ""
    search: KnowledgeSearch | None = None
    requests: tuple[str, ...] = ()
    read: KnowledgeRead | None = None
    on_load: LoadHook | None = None
    hooks: Hooks = NO_HOOKS
    resolvers: tuple[NamespaceResolver, ...] = ()
    program_calls: ProgramCalls | None = None
    result: Any = None

    @property
    def result_type(self) -> ResultType | None:
        """The type of the value that `complete` carries. Raises InputError `result_type_invalid`."""
        if self.result is None:
            return None
        from stepline.tools.typed.result_type import read_result_type  # noqa: PLC0415 - most agents have none

        return read_result_type(self.result)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The bundle's own tools. Raises the errors of `load_tools`."""
        own = load_tools(self.tools_module) if self.tools_module else ()
        return own if self.search is None else (*own, knowledge_tool(self.search, self.requests))

    @property
    def servers(self) -> Sequence[Any]:
        """The rows of the bundle's MCP servers. Raises InputError `tools_module_not_found`, `tools_module_invalid`."""
        if not self.tools_module:
            return ()
        module = load_module(self.tools_module, code="tools_module_not_found")
        rows = getattr(module, MCP_TOOL_SPECS, ())
        if not isinstance(rows, list | tuple):
            raise InputError(
                f"{MCP_TOOL_SPECS} of {self.tools_module} is no list", code="tools_module_invalid"
            )
        return rows

    def skills(self, tools: Collection[str]) -> tuple[Skill, ...]:
        """Return the skills of an agent with these tools: built-in ones, the bundle's folder, and its module's.

        Raises the errors of `load_skills` and `load_folder`.
        """
        module = (
            load_module(self.skills_module, code="skills_module_not_found") if self.skills_module else None
        )
        own = load_skills(self.skills_module) if module else ()
        skills = merge_skills(load_folder(BUILT_IN), self._folder(module), own)
        config = patterns_of(getattr(module, AGENTS_CONFIG, {}), self.skills_module)
        return choose_skills(skills, config, tools)

    def _folder(self, module: ModuleType | None) -> tuple[Skill, ...]:
        """Return the skills of `CUSTOM_SKILLS_ROOT`, or of `skills/` in the bundle's package."""
        package = sys.modules.get(self.bundle) or module
        home = Path(file).parent if (file := getattr(package, "__file__", None)) else None
        custom = getattr(module, CUSTOM_SKILLS_ROOT, None)
        if custom is None and not (home and (home / "skills").is_dir()):
            return ()
        root = (home or Path()) / (custom or "skills")
        if not root.is_dir():
            raise InputError(
                f"{CUSTOM_SKILLS_ROOT} of {self.skills_module} is no folder", code="skills_module_invalid"
            )
        below = home if self.bundle and home and root.is_relative_to(home) else None
        return load_folder(root, at=root.relative_to(below).as_posix() if below else "")

    @property
    def shelves(self) -> Mapping[str, Shelf]:
        """The content readable by path outside the conversation, by path family, except for the skills."""
        return {} if self.read is None else {"ks": knowledge_shelf(self.read)}

    @property
    def namespaces(self) -> Mapping[str, Resolve]:
        """The functions that find the content of the bundle's own paths. Raises InputError `resolver_invalid`."""
        check_resolvers(self.resolvers)
        return {one.namespace: resolve_with(one) for one in self.resolvers}


@cache
def load_tools(name: str) -> tuple[Tool, ...]:
    """Return the `TOOLS` of a module.

    Raises:
        InputError: `tools_module_not_found`; `tools_module_invalid`, it has no tools, or other values among
            them, or names of the design that would not be followed.
    """
    module = load_module(name, code="tools_module_not_found")
    if hasattr(module, TOOLS_SPECS):
        raise InputError(
            f"{TOOLS_SPECS} of {name} is not read: list each tool in {TOOLS}, as a value Tool",
            code="tools_module_invalid",
        )
    tools: tuple[Tool, ...] = _rows(module, TOOLS, Tool, code="tools_module_invalid")
    _check_runtimes(module, tools)
    return tools


def _check_runtimes(module: ModuleType, tools: Sequence[Tool]) -> None:
    """Refuse a `TOOL_RUNTIME` by the tool's name, unless it says where the tool runs anyway: `none`, in its round."""
    said = getattr(module, TOOL_RUNTIME, {})
    if not isinstance(said, Mapping):
        raise InputError(
            f"{TOOL_RUNTIME} of {module.__name__} is no mapping of tools", code="tools_module_invalid"
        )
    in_round = {tool.spec.tool_id for tool in tools if not tool.spec.isolated}
    for tool_id, runtime in said.items():
        if tool_id not in in_round or runtime != "none":
            raise InputError(
                f"{TOOL_RUNTIME} of {module.__name__}: {tool_id!s:.80} cannot run as {runtime!r:.80}. A tool of {TOOLS} runs "
                "in its round (none), or as a program if its ToolSpec is isolated; EXEC_RUNTIME_MODE places all programs",
                code="tools_module_invalid",
            )


@cache
def load_skills(name: str) -> tuple[Skill, ...]:
    """Return the `SKILLS` of a module; none if it only names a folder, or consumers.

    Raises:
        InputError: `skills_module_not_found`; `skills_module_invalid`, as for tools; `skill_invalid`, by its id.
    """
    module = load_module(name, code="skills_module_not_found")
    if not hasattr(module, SKILLS) and (
        hasattr(module, CUSTOM_SKILLS_ROOT) or hasattr(module, AGENTS_CONFIG)
    ):
        return ()
    skills: tuple[Skill, ...] = _rows(module, SKILLS, Skill, code="skills_module_invalid")
    check_skills(skills)
    return skills


def _rows(module: ModuleType, attribute: str, kind: type[Any], *, code: str) -> tuple[Any, ...]:
    rows = getattr(module, attribute, None)
    if not isinstance(rows, list | tuple):
        raise InputError(f"{module.__name__} has no list {attribute}", code=code)
    if wrong := [row for row in rows if not isinstance(row, kind)]:
        raise InputError(
            f"{attribute} of {module.__name__} holds {wrong[0]!r:.80}, which is no {kind.__name__}", code=code
        )
    return tuple(rows)
