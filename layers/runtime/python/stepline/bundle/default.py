"""The agent that answers out of the box: the first tools and the standard instructions."""

from __future__ import annotations

from stepline.bundle.prompt import system_prompt
from stepline.loop.agent import Agent, Execution
from stepline.model.execution import PREVIEW_CHARS, Limits, RuntimeProfile
from stepline.protocol.fanout import FanoutRule
from stepline.tools.catalogue import default_registry
from stepline.tools.context import ReadCaps

ONE_ACTION = FanoutRule()


def build_agent(
    caps: ReadCaps,
    *,
    runtime: tuple[RuntimeProfile, Limits] | None = None,
    packages: tuple[str, ...] = (),
    preview_chars: int = PREVIEW_CHARS,
    fanout: FanoutRule = ONE_ACTION,
    strict: bool = True,
) -> Agent:
    """Return the default agent.

    `caps` bound what one read shows. `runtime` is where its programs run and within which limits, `packages` what
    they may import, and `preview_chars` is how much of a text they write is shown; without a runtime it has no tool
    that runs programs. `fanout` bounds how many actions a round may have; `strict` ends a generation that does not
    begin as it must.
    """
    registry = default_registry(executes=runtime is not None)
    execution = None
    if runtime is not None:
        tools = tuple(spec.tool_id for spec in registry.specs if spec.in_exec)
        execution = Execution(profile=runtime[0], limits=runtime[1], tools=tools, preview_chars=preview_chars)
    return Agent(
        system=system_prompt(
            tools=registry.specs,
            caps=caps,
            packages=packages if execution else None,
            fanout=fanout,
        ),
        registry=registry,
        caps=caps,
        execution=execution,
        fanout=fanout,
        strict=strict,
    )
