"""An account in which every function uses one of a few executions, like a new AWS account.

The functions of the APIs are the deployed handlers, and end immediately. Those of a turn are invocations that stop
while they wait for the model, and keep their execution. A call is refused while all executions are in use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from stepline.adapters.memory.model import MemoryModelStream, Say
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.loop.close import close
from stepline.loop.decide import decide
from stepline.metering.ledger import Ledger
from stepline.model.step import Step
from stepline.model.wire.event import Frame
from stepline.ports.model import ModelRequest
from tests.contract.fault.boundary import Reach
from tests.contract.fault.invocation import Invocation
from tests.handlers.conftest import LambdaRuntime
from tests.handlers.ingress_events import ask_for_ticket, handshake, open_socket, request, say, verdict
from tests.support.conversation import follow
from tests.support.generation import answered

T = TypeVar("T")

EXECUTIONS: Final = 10
"""The account's total, for all functions."""


class ThrottledError(Exception):
    """`TooManyRequestsException`: every execution of the account is in use."""


class FunctionPool:
    """The executions of an account."""

    def __init__(self, size: int = EXECUTIONS) -> None:
        self.size = size
        self.running: list[Invocation] = []
        self.most = 0

    def call(self, function: Callable[[], T]) -> T:
        """Call a function that ends immediately."""
        self._take()
        return function()

    def begin(self, name: str, body: Callable[[Reach], Any]) -> Invocation:
        """Start a function that stops while it waits."""
        self._take()
        self.running.append(Invocation(name, body))
        return self.running[-1]

    def _take(self) -> None:
        self.running = [one for one in self.running if not one.done]
        if len(self.running) >= self.size:
            raise ThrottledError
        self.most = max(self.most, len(self.running) + 1)


class CrowdedStage:
    """A stage whose functions share a pool; `streams` are the decisions that wait for the model, by conversation."""

    def __init__(self, runtime: LambdaRuntime, pool: FunctionPool) -> None:
        self._runtime = runtime
        self._pool = pool
        self._waiting: list[tuple[str, str, Step]] = []
        self.streams: dict[str, tuple[str, Invocation]] = {}

    # --- clients of the APIs

    def enter(self, user: str, token: str) -> None:
        """Request a ticket as a browser does, and open a connection with it."""
        context = self._pool.call(lambda: verdict(self._runtime, request(token)))
        assert context is not None
        answer = self._pool.call(lambda: ask_for_ticket(self._runtime, context))
        ticket = json.loads(answer["body"])["ticket"]
        shown = self._pool.call(lambda: verdict(self._runtime, handshake(ticket=ticket)))
        assert shown is not None
        self._pool.call(lambda: open_socket(self._runtime, shown, user))

    def send(self, user: str, **message: Any) -> list[Frame]:
        """Send a message to the user's own conversation; return the frames of the answer."""
        sent = {"conversation": f"c-{user}", **message}
        return self._pool.call(lambda: say(self._runtime, sent, user))

    # --- the state machine

    def start(self) -> None:
        """Start executions, and retry those whose function was refused."""
        machine: Any = self._runtime.app.ports.machine
        while machine.queue:
            name, step = machine.queue.pop(0)
            self._waiting.append((name, "decide", step))
        waiting, self._waiting = self._waiting, []
        for name, state, step in waiting:
            self._enter(name, state, step)

    def answer(self, user: str) -> None:
        """Let the model answer a user completely, until the turn waits for it again or has ended."""
        name, invocation = self.streams.pop(f"c-{user}")
        step: Step = invocation.finish().result
        self._follow(name, "decide", step)
        self.start()

    def _enter(self, name: str, state: str, step: Step) -> None:
        try:
            if state == "decide":
                self.streams[step.conversation] = (name, self._pool.begin("decide", self._decide(step)))
                return
            self._follow(name, state, self._pool.call(lambda: close(self._ports(), step)))
        except ThrottledError:
            self._waiting.append((name, state, step))

    def _follow(self, name: str, state: str, step: Step) -> None:
        if step.route in ("stop", "done"):
            self._runtime.app.ports.machine.end(name)  # type: ignore[attr-defined]  # the memory twin's own
            return
        self._enter(name, follow(state, step.route), step)

    def _decide(self, step: Step) -> Callable[[Reach], Step]:
        app = self._runtime.app
        return lambda reach: decide(self._ports(), app.agent, SlowModel(reach), History(), step)

    def _ports(self) -> Ports:
        return replace(self._runtime.app.ports, ledger=Ledger())


class SlowModel:
    """A model that waits before its first text."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    def stream(self, asked: ModelRequest) -> MemoryModelStream:
        return _SlowStream(asked, self._reach)


class _SlowStream(MemoryModelStream):
    def __init__(self, asked: ModelRequest, reach: Reach) -> None:
        super().__init__(asked, lambda: Say(text=answered("That is all.")))
        self._reach = reach

    def __iter__(self) -> Iterator[str]:
        self._reach("model.stream", lambda: None)
        yield from super().__iter__()
