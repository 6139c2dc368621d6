"""Everything in flight at once over one simulation. The scheduler chooses the invocation that makes its next
call, which one dies there, and whose caller no longer waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.log import MemoryLog
from stepline.loop.programs.remote import sweep_tasks
from stepline.loop.sweep import sweep
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.ports.log import Put
from tests.contract.fault.boundary import SILENT, Reach
from tests.contract.fault.client import Client
from tests.contract.fault.driver import SETTLE_ROUNDS, SWEEP_S, UnsettledError
from tests.contract.fault.execution import Execution
from tests.contract.fault.invocation import DIED, Fault, Invocation
from tests.contract.fault.simulation import Simulation

MESSAGE_ROW_S: Final = 14 * 86_400
FUNCTION_S: Final = 900


class ExpiringLog(MemoryLog):
    """A log that forgets which messages it admitted, as the stored one does after two weeks."""

    clock: MemoryClock

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        self._expire()
        return super().put(lane, batch, **fields)

    def admitted(self, lane: Lane, message_id: str) -> int | None:
        self._expire()
        return super().admitted(lane, message_id)

    def _expire(self) -> None:
        times = self.__dict__.setdefault("_times", {})
        now_s = self.clock.now().timestamp()
        for key in list(self._messages):
            if now_s - times.setdefault(key, now_s) > MESSAGE_ROW_S:
                del self._messages[key], times[key]


class Flight:
    """An invocation, and the execution that waits for it; one without is a client's, a sweeper's, a copy's or given up."""

    def __init__(self, invocation: Invocation, execution: Execution | None = None) -> None:
        self.invocation = invocation
        self.execution = execution


class ConcurrentRun:
    """`flights` are all invocations that are not over, oldest first."""

    def __init__(self, make: Callable[[MemoryLog], Simulation], clients: Sequence[str]) -> None:
        log = ExpiringLog()
        self.simulation = make(log)
        self.simulation.outlived = True
        log.clock = self.simulation.clock
        self.clients = [Client(name, self.simulation, self._start) for name in clients]
        self.flights: list[Flight] = []
        self.executions: list[Execution] = []
        for client in self.clients:
            client.join()
        self.finish()

    @property
    def sent(self) -> set[str]:
        """Everything that was said and not given up."""
        return {one for client in self.clients for one in client.said if one not in client.given_up}

    # --- what a scheduler may do

    def advance(self, flight: Flight, calls: int = 1, fault: Fault = "") -> None:
        """Let an invocation make a number of calls, of which the first may fail."""
        invocation = flight.invocation
        for _ in range(calls):
            if invocation.done:
                break
            if fault == "lost" and invocation.at in SILENT:
                fault = ""
            invocation.advance(fault)
            fault = ""
        self._tidy()

    def give_up(self, flight: Flight) -> None:
        """Report an invocation as gone to its caller, while it is not."""
        execution, flight.execution = flight.execution, None
        if execution is not None and not execution.over:
            execution.fail(DIED("given up"))
        self._tidy()

    def copy(self, flight: Flight) -> None:
        """Invoke what a flight runs a second time."""
        if flight.execution is not None and not flight.execution.over:
            self.simulation.shared.add(self.simulation.state.claim)
            self.flights.append(Flight(flight.execution.begin()))

    def abandon(self, flight: Flight) -> None:
        """Let the execution that waits for an invocation end."""
        if flight.execution is not None:
            flight.execution.abandon()
        self._tidy()

    def wait(self, seconds: float) -> None:
        """Let time pass; no function lives longer than `FUNCTION_S`."""
        if seconds > FUNCTION_S:
            for flight in list(self.flights):
                self.advance(flight, fault="before")
        self.simulation.clock.pause(seconds)

    def sweep(self) -> None:
        """Let the sweeper come."""
        self._start("sweep", lambda reach: sweep(self.simulation.seen(reach)))
        self._start("sweep tasks", lambda reach: sweep_tasks(self.simulation.seen(reach)))

    def finish(self) -> None:
        """Let everything in flight come to its end, one after the other."""
        while self.flights:
            self.advance(self.flights[0], calls=10_000)

    def finish_clients(self) -> None:
        """Let everything come to its end that no execution waits for."""
        while loose := [flight for flight in self.flights if flight.execution is None]:
            self.advance(loose[0], calls=10_000)

    def listen(self) -> None:
        for client in self.clients:
            client.read()

    # --- the end

    def settle(self) -> None:
        """Let everything end, without another fault, and all clients learn of it."""
        for _ in range(SETTLE_ROUNDS):
            self.finish()
            self.listen()
            waiting = [client for client in self.clients if client.outbox]
            for client in waiting:
                self._say_again(client)
            if waiting or self.flights:
                continue
            if not self.simulation.log.open_lanes(before="9999"):
                break
            self.simulation.clock.pause(SWEEP_S)
            self.sweep()
        else:
            raise UnsettledError(f"the lane is at {self.simulation.state}")
        for client in self.clients:
            self._catch_up(client)

    def end(self) -> None:
        """Let nothing run on."""
        for flight in self.flights:
            flight.invocation.kill()

    def _catch_up(self, client: Client) -> None:
        for _ in range(SETTLE_ROUNDS):
            self._connect(client)
            client.resume() if client.is_late() else client.ping()
            self.finish()
            client.read()
            if not client.is_late() and client.state.cursor == self.simulation.newest_event:
                return
        raise UnsettledError(f"{client.name} does not catch up")

    def _say_again(self, client: Client) -> None:
        self._connect(client)
        for message_id in sorted(client.outbox):
            client.send(message_id)

    def _connect(self, client: Client) -> None:
        if client.expired or not client.connection:
            client.join()
            self.finish()

    # --- how

    def _start(self, name: str, body: Callable[[Reach], Any]) -> Invocation:
        invocation = Invocation(name, body)
        self.flights.append(Flight(invocation))
        self._tidy()
        return invocation

    def _tidy(self) -> None:
        """Let executions hear of what is over, and go on."""
        for flight in [one for one in self.flights if one.invocation.done]:
            self.flights.remove(flight)
            if flight.execution is not None:
                flight.execution.settle(flight.invocation)
        while self.simulation.machine.queue:
            self.executions.append(Execution(self.simulation, *self.simulation.machine.queue.pop(0)))
        busy = {id(flight.execution) for flight in self.flights}
        for execution in self.executions:
            if not execution.over and id(execution) not in busy:
                self.flights.append(Flight(execution.begin(), execution))
        self.executions = [execution for execution in self.executions if not execution.over]
