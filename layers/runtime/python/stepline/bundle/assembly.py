"""Assemble an agent from the common parts, a bundle's parts, and the deployment's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepline.bundle.namespaces.namespace_resolver import render_namespaces
from stepline.bundle.parts import Parts
from stepline.bundle.skills.skill import Skill
from stepline.bundle.skills.skill_catalogue import JOURNAL_HEAD, render_skill_catalogue
from stepline.bundle.skills.skill_shelf import skill_shelf
from stepline.bundle.system_prompt import (
    COMPACTION_SUMMARY,
    GATE,
    PREFIX,
    PromptFacts,
    journal_text,
    load_template,
    system_prompt,
)
from stepline.errors import InputError
from stepline.loop.agent import Agent, Execution, Summariser
from stepline.model.base import Value
from stepline.model.program.execution import PREVIEW_CHARS, RunLimits, RuntimeProfile, ServedGrant
from stepline.model.version import LAYOUTS, AgentVersion, ContextLayout, Layout
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.catalogue import agent_registry
from stepline.tools.context import ReadCaps
from stepline.tools.registry import Registry, Tool

if TYPE_CHECKING:
    from stepline.tools.mcp.servers import Rebuild, Servers

ONE_ACTION = FanoutRule()


class RemoteRules(Value):
    """The deployment's part of the agent's MCP servers: those of the properties by id, and the timeouts of calls and lists."""

    configured: Mapping[str, Any] = {}
    timeout_s: float = 60.0
    ttl_s: float = 3600.0


NO_RULES: Final = RemoteRules()


def build_agent(
    caps: ReadCaps,
    *,
    parts: Parts,
    runtime: tuple[RuntimeProfile, RunLimits] | None = None,
    packages: tuple[str, ...] = (),
    preview_chars: int = PREVIEW_CHARS,
    fanout: FanoutRule = ONE_ACTION,
    strict: bool = True,
    version: AgentVersion = "v3",
    layout: ContextLayout = "timeline",
    remote: RemoteRules = NO_RULES,
) -> Agent:
    """Return the agent of a bundle.

    `caps` limit the text shown by one read. `runtime` are the profile and limits of its programs, `packages`
    the packages they may import, and `preview_chars` the shown length of a text they write; without a runtime
    the agent has no tool that runs programs. `fanout` limits the actions of a round; `strict` ends a
    generation that does not begin correctly. In `version` v2 a gate names a new conversation, and a round has
    one action whatever `fanout` says. `layout` is that of its requests. `remote` is for the bundle's MCP servers.

    Raises:
        InputError: `tool_id_taken`, a tool of the bundle has the id of another one; `mcp_server_invalid`;
            `program_tool_invalid`; the errors of `Parts`.
    """
    rule, shown = ONE_ACTION if version == "v2" else fanout, LAYOUTS[layout]
    result = parts.result_type
    resolvers = parts.namespaces  # checked before their texts enter the instructions

    def made(tools: Sequence[Tool] = ()) -> tuple[str, Registry, Sequence[Skill]]:
        registry = _registry(parts, tools, executes=runtime is not None)
        skills = parts.skills({spec.tool_id for spec in registry.specs})
        lines = result.describe() if result else ""
        shared = packages if runtime is not None else None
        facts = PromptFacts(registry.specs, caps, shared, rule, version, lines)
        return _system(facts, render_namespaces(parts.resolvers), skills, shown), registry, skills

    system, registry, skills = made()
    return Agent(
        system=system,
        layout=shown,
        registry=registry,
        caps=caps,
        execution=_execution(parts, registry, *runtime, preview_chars) if runtime is not None else None,
        fanout=rule,
        strict=strict,
        gate=load_template(GATE) if version == "v2" else "",
        shelves={**parts.shelves, **({"sk": skill_shelf(skills)} if skills else {})},
        resolvers=resolvers,
        hooks=parts.hooks,
        summariser=Summariser(summary=load_template(COMPACTION_SUMMARY), prefix=load_template(PREFIX)),
        result=result,
        servers=_servers(parts, lambda tools: made(tools)[:2], remote),
    )


def _execution(
    parts: Parts, registry: Registry, profile: RuntimeProfile, limits: RunLimits, preview_chars: int
) -> Execution:
    return Execution(
        profile=profile,
        limits=limits,
        tools=tuple(spec.tool_id for spec in registry.specs if spec.in_exec and not spec.served),
        served=parts.program_calls.limits if parts.program_calls else ServedGrant(),
        preview_chars=preview_chars,
    )


def _system(facts: PromptFacts, namespaces: str, skills: Sequence[Skill], layout: Layout) -> str:
    """Return an agent's system part; in the layout `journal` its blocks are packed into one text."""
    if layout.shows_timeline:
        lists = (namespaces, render_skill_catalogue(skills))
        return system_prompt(facts) + "".join(f"\n{one}\n" for one in lists if one)
    return journal_text(facts, (namespaces, render_skill_catalogue(skills, JOURNAL_HEAD))).pack()


def _servers(parts: Parts, catalogue: Rebuild, remote: RemoteRules) -> Servers | None:
    """Return the MCP servers of a bundle; without any, their modules are not loaded."""
    if not (rows := parts.servers):
        return None
    from stepline.tools.mcp.server_row import read_servers  # noqa: PLC0415 - most bundles have none
    from stepline.tools.mcp.servers import Servers  # noqa: PLC0415 - as above

    return Servers(
        read_servers(rows, remote.configured), catalogue, timeout_s=remote.timeout_s, ttl_s=remote.ttl_s
    )


def _registry(parts: Parts, more: Sequence[Tool], *, executes: bool) -> Registry:
    tools = (*parts.tools, *more)  # outside the try: a bundle's own ValueError is not about a duplicate id
    try:
        registry = agent_registry(tools, executes=executes)
        return (
            Registry(parts.program_calls.grant(registry.tools))
            if executes and parts.program_calls
            else registry
        )
    except ValueError as error:
        raise InputError(str(error), code="tool_id_taken") from error
