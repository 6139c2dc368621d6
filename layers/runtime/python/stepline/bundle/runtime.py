"""The runtime of a workflow: the ports, the steps of a turn, and the executions of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from stepline.bundle.parts import Parts
from stepline.ingress.admit import Admitted, Arrival
from stepline.ingress.event_validation import take_event
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.loop.agent import Agent
from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.ports.machine import OwnMachine

if TYPE_CHECKING:
    from stepline.bundle.turn_payload import FileLike
    from stepline.ingress.file_checks import FileChecks

P = ParamSpec("P")
T = TypeVar("T")


class Loop(Protocol):
    """The steps of a turn for one agent, as a deployment's functions run them."""

    def decide(self, step: Step) -> Step: ...

    def act(self, step: Step) -> Step: ...

    def execute(self, step: Step) -> Step: ...

    def close(self, step: Step) -> Step: ...

    def follow(self, step: Step) -> None:
        """Run the bundle's hook after the turn that Close has ended with this answer, if it has."""


class Runtime(Protocol):
    """The process's runtime, created by `stepline.bootstrap.in_process`. The machine of `ports` is `machine`."""

    @property
    def ports(self) -> Ports: ...

    @property
    def machine(self) -> OwnMachine: ...

    @property
    def history(self) -> History: ...

    @property
    def threads(self) -> Executor:
        """The executor for every call that may reach a bundle's functions."""

    @property
    def file_checks(self) -> FileChecks:
        """The checks that a file passes before it is attached. Raises InputError `bad_setting`."""

    def name_of(self, module: str) -> str:
        """Return the name that the settings give the bundle with this package; "" if they do not name it."""

    def build_agent(self, parts: Parts) -> Agent:
        """Return the deployment's agent with a bundle's parts. Raises InputError for invalid parts."""

    def loop(self, agent: Agent, parts: Parts) -> Loop:
        """Return the steps of a turn for an agent built from these parts."""


def submit(runtime: Runtime, lane: Lane, arrival: Arrival, files: Sequence[FileLike] = ()) -> Admitted:
    """Submit an event with its files to a conversation, from any thread.

    Raises the errors of `read_files`, `store_files` and `take_event`.

    Uses the door: Close puts first, then starts what it opened. The door is held no longer than that takes,
    independent of a turn's duration.
    """
    if files:
        from stepline.bundle.turn_payload import read_files  # noqa: PLC0415 - few events have files, and hooks load this module
        from stepline.ingress.file_checks import store_files  # noqa: PLC0415 - as above

        given = read_files(files)
        stored = store_files(runtime.ports, runtime.file_checks, lane, user=arrival.user, given=given)
        arrival = replace(arrival, attachments=stored)
    with runtime.machine.door(lane):
        return take_event(runtime.ports, lane, arrival)


async def in_thread(runtime: Runtime, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread of the runtime and return its result.

    Not `asyncio.to_thread`: a step waits for the coroutines of its bundle, and those may need a thread of the
    default executor. If steps took all of them, none would ever continue.
    """
    run = partial(copy_context().run, partial(call, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(runtime.threads, run)
