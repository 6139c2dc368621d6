"""What a workflow runs on: the ports, the steps of a turn, and the executions of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from stepline.bundle.parts import Parts
from stepline.ingress.admit import Admitted, Arrival
from stepline.ingress.event_validation import take_event
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.loop.agent import Agent
from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.ports.machine import OwnMachine

P = ParamSpec("P")
T = TypeVar("T")


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

    @property
    def threads(self) -> Executor:
        """Where whatever may call a function of a bundle runs."""
        ...

    def build_agent(self, parts: Parts) -> Agent:
        """Return the deployment's agent with a bundle's parts. Raises InputError for parts that are none."""
        ...

    def loop(self, agent: Agent, parts: Parts) -> Loop:
        """Return the steps of a turn for an agent that was built of these parts."""
        ...


def submit(runtime: Runtime, lane: Lane, arrival: Arrival) -> Admitted:
    """Put an event into a conversation, from any thread. Raises what `take_event` raises.

    The door: Close puts first, and starts what it opened then. It is shut no longer than that takes, whatever a turn does.
    """
    with runtime.machine.door(lane):
        return take_event(runtime.ports, lane, arrival)


async def in_thread(runtime: Runtime, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `call` returns in a thread of the runtime's.

    Not `asyncio.to_thread`: a step waits for the coroutines of its bundle, and those may need a thread of the default
    executor. Were all of them taken by steps, none would ever go on.
    """
    run = partial(copy_context().run, partial(call, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(runtime.threads, run)
