"""What a workflow runs on: the ports, the steps of a turn, and the executions of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stepline.bundle.parts import Parts
from stepline.loop.agent import Agent
from stepline.loop.history import History
from stepline.loop.port import Ports
from stepline.model.step import Step
from stepline.ports.machine import OwnMachine
from stepline.ports.model import ModelClient

Wrap = Callable[[ModelClient], ModelClient]
"""Puts something around the model that a workflow asks."""


class Loop(Protocol):
    """The steps of a turn for one agent, as the functions of a deployment run them."""

    def decide(self, step: Step) -> Step: ...

    def act(self, step: Step) -> Step: ...

    def execute(self, step: Step) -> Step: ...

    def close(self, step: Step) -> Step: ...


class Runtime(Protocol):
    """One for a process; `stepline.bootstrap.in_process` makes it. The machine of `ports` is `machine`."""

    @property
    def ports(self) -> Ports: ...

    @property
    def machine(self) -> OwnMachine: ...

    @property
    def history(self) -> History: ...

    def build_agent(self, parts: Parts) -> Agent:
        """Return the deployment's agent with a bundle's parts. Raises InputError for parts that are none."""
        ...

    def loop(self, agent: Agent, parts: Parts, wrap: Wrap) -> Loop:
        """Return the steps of a turn for an agent that was built of these parts."""
        ...
