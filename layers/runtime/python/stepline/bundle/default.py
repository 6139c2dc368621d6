"""The agent that answers out of the box: the first tools and the standard instructions."""

from __future__ import annotations

from stepline.bundle.prompt import system_prompt
from stepline.loop.agent import Agent
from stepline.tools.catalogue import default_registry
from stepline.tools.context import ReadCaps
from stepline.tools.spec import render_catalogue


def build_agent(caps: ReadCaps) -> Agent:
    """Return the default agent; `caps` bound what one read shows."""
    registry = default_registry()
    return Agent(
        system=system_prompt(catalogue=render_catalogue(registry.specs), caps=caps),
        registry=registry,
        caps=caps,
    )
