"""Assemble an agent from the common parts, a bundle's parts, and the deployment's settings."""

from __future__ import annotations

from stepline.bundle.parts import Parts
from stepline.bundle.system_prompt import GATE, PREFIX, SUMMARY, load_template, system_prompt
from stepline.errors import InputError
from stepline.loop.agent import Agent, Execution, Summariser
from stepline.model.program.execution import PREVIEW_CHARS, Limits, RuntimeProfile
from stepline.model.version import AgentVersion
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.catalogue import agent_registry
from stepline.tools.context import ReadCaps
from stepline.tools.registry import Registry

ONE_ACTION = FanoutRule()


def build_agent(
    caps: ReadCaps,
    *,
    parts: Parts,
    runtime: tuple[RuntimeProfile, Limits] | None = None,
    packages: tuple[str, ...] = (),
    preview_chars: int = PREVIEW_CHARS,
    fanout: FanoutRule = ONE_ACTION,
    strict: bool = True,
    version: AgentVersion = "v3",
) -> Agent:
    """Return the agent of a bundle.

    `caps` limit the text shown by one read. `runtime` are the profile and limits of its programs, `packages`
    the packages they may import, and `preview_chars` the shown length of a text they write; without a runtime
    the agent has no tool that runs programs. `fanout` limits the actions of a round; `strict` ends a
    generation that does not begin correctly. In `version` v2 a gate names a new conversation, and a round has
    one action whatever `fanout` says.

    Raises:
        InputError: `tool_id_taken`, a tool of the bundle has the id of another one; the errors of `Parts`.
    """
    rule = ONE_ACTION if version == "v2" else fanout
    registry = _registry(parts, executes=runtime is not None)
    execution = None
    if runtime is not None:
        tools = tuple(spec.tool_id for spec in registry.specs if spec.in_exec)
        execution = Execution(profile=runtime[0], limits=runtime[1], tools=tools, preview_chars=preview_chars)
    system = system_prompt(
        tools=registry.specs,
        caps=caps,
        packages=packages if execution else None,
        fanout=rule,
        version=version,
    )
    return Agent(
        system=f"{system}\n{parts.instructions}\n" if parts.instructions else system,
        registry=registry,
        caps=caps,
        execution=execution,
        fanout=rule,
        strict=strict,
        gate=load_template(GATE) if version == "v2" else "",
        shelves=parts.shelves,
        summariser=Summariser(summary=load_template(SUMMARY), prefix=load_template(PREFIX)),
    )


def _registry(parts: Parts, *, executes: bool) -> Registry:
    tools = parts.tools  # outside the try: a bundle's own ValueError is not about a taken id
    try:
        return agent_registry(tools, executes=executes)
    except ValueError as error:
        raise InputError(str(error), code="tool_id_taken") from error
