"""A turn in this process: a message is admitted, and its steps run in worker threads until it has an answer.

    admit → Decide ─▶ Act ─▶ Decide … ─▶ Close → the next turn, if one was opened

Edges and retries are those of the state machine (`loop.graph`), and so is the state after a crash: the log.
After a failed step, a cancelled task or the end of a process, the next message, or the same one again,
resumes the turn. Several conversations run in parallel, each in one thread at a time.

Source: docs/how-to/write-a-bundle.md.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec.structs import replace

from stepline.bundle.runtime import P, T, in_thread, submit
from stepline.bundle.turn_payload import (
    Payload,
    PayloadLike,
    TurnResult,
    closed_result,
    new_message_id,
    parked_result,
    read_payload,
)
from stepline.errors import DependencyError, Fenced, InputError
from stepline.ingress.admit import Admitted, Arrival, pending
from stepline.ingress.approval_answer import ApprovalAnswer, Settled, answer_request
from stepline.log.journal import Journal
from stepline.loop.sweep import revive
from stepline.loop.turn import turn
from stepline.model.batch import Batch, State
from stepline.model.entry import Closed, Dropped, Opened
from stepline.model.ids import Lane, execution_name
from stepline.model.step import Step

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from stepline.bundle.parts import Parts
    from stepline.bundle.runtime import Loop, Runtime
    from stepline.loop.agent import Agent


logger = logging.getLogger(__name__)

CLOSE: Final = "Close"


class Workflow(Protocol):
    """The part of a workflow that a turn uses."""

    runtime: Runtime
    lane: Lane
    user: str
    scratchpad: MutableMapping[str, Any]


class React:
    """The agent of one conversation, over the ports of the workflow's runtime."""

    def __init__(self, workflow: Workflow, agent: Agent, parts: Parts) -> None:
        """Serve the workflow's conversation with an agent built from `parts`."""
        self.agent = agent
        self._workflow = workflow
        self._ports = workflow.runtime.ports
        self._machine = workflow.runtime.machine
        self._lane = workflow.lane
        self._bundle = workflow.runtime.name_of(parts.bundle)
        loop = workflow.runtime.loop(agent, parts)
        self._states: Mapping[str, Callable[[Step], Step]] = {
            "Decide": loop.decide,
            "Act": loop.act,
            "Prepare": loop.act,
            "Execute": loop.execute,
            CLOSE: self._closing(loop),
        }

    async def run(self, payload: PayloadLike) -> TurnResult:
        """Admit a message, or another event that requests an answer, and return the result of its turn.

        A turn that fails has the outcome `error`, and a code. One that waits for a person is `parked`; `answer` continues it.
        A message to an open turn is answered by that turn or the next one, or is handed back if the user stops the turn before
        the model has seen it.

        Raises:
            InputError: `bad_payload`, it has no message or requests no answer; the event is invalid;
                `attachment_rejected` and others, a file of it is refused.
            LimitError: it or its files are too large.
            NotFoundError: the conversation belongs to another user.
            BusyError, DependencyError, UnknownOutcome: temporary; send the message again with the same id.
            Fenced: another process has taken the turn over, and answers.
        """
        said = read_payload(payload)
        admitted = await self._in_thread(self._admit, said)
        if admitted.fate in ("kept", "dropped"):
            raise InputError("the event with this id requests no answer", code="bad_payload")
        return await self._see_through(admitted.batch, known=admitted.duplicate)

    async def answer(
        self,
        verdict: Literal["approved", "denied", "edited"],
        call_id: str,
        *,
        text: str = "",
        params: Mapping[str, Any] | None = None,
        message_id: str = "",
    ) -> TurnResult:
        """Answer whether a call of a parked turn may run, and return the result of the turn.

        With the same `message_id` it is the same answer. Raises the errors of `answer_request` and of `run`.
        """
        answer = ApprovalAnswer(
            message_id=message_id or new_message_id(),
            user=self._workflow.user,
            call_id=call_id,
            verdict=verdict,
            text=text,
            params=params,
        )
        settled = await self._in_thread(self._settle, answer)
        return await self._see_through(settled.batch, known=settled.duplicate)

    async def _see_through(self, batch: Batch, *, known: bool) -> TurnResult:
        """Drive the turn of a stored batch to its end, or until it waits for a person.

        `known`: the batch existed before.
        """
        n, state, closed = batch.n, batch.state, None
        scratchpad = self._workflow.scratchpad
        scratchpad["turn_id"] = state.turn
        if known or state.parked:
            state, closed = await self._in_thread(self._look, n)
        while closed is None:
            name = execution_name(self._lane, state.epoch)
            # Read before `take`: if that returns nothing, another task here drives the started execution.
            is_known = self._machine.started(name)
            if execution := self._machine.take(self._lane):
                await self._execute(*execution)
            elif is_known:
                await self._wait(name)
            elif not await self._in_thread(self._runs_here):
                raise Fenced("the turn continues in another process; its answer will be in the conversation")
            state, closed = await self._in_thread(self._look, n)
        result = self._typed(closed)
        scratchpad.update(turn_id=result.turn_id, result=result)
        return result

    def _typed(self, result: TurnResult) -> TurnResult:
        """Return a result with its value as the agent's result type; one of an earlier type stays JSON."""
        if self.agent.result is None or result.value is None:
            return result
        try:
            return replace(result, value=self.agent.result.decode(result.value))
        except ValueError:
            logger.warning("value does not fit the result type", extra={"turn_id": result.turn_id})
            return result

    # --- one execution

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(self._workflow.runtime, call, *args, **kwargs)

    async def _execute(self, name: str, step: Step) -> None:
        """Drive an execution to its end."""
        try:
            await self._drive(step)
        finally:
            self._machine.end(name)

    async def _drive(self, step: Step) -> None:
        """Run the states of one execution. Raises the error of Close's last try."""
        course = turn(step, jitter=_jitter)
        visit = next(course)
        while True:
            try:
                if visit.pause_s:
                    await self._in_thread(self._ports.clock.pause, visit.pause_s)
                answer = await self._in_thread(self._states.get(visit.state, _nowhere), visit.step)
            except Exception as error:  # noqa: BLE001 - the edge of a step, like that of a function: the state's Retry and Catch decide
                go_on = partial(course.throw, error)
            else:
                go_on = partial(course.send, answer)
            try:
                visit = go_on()
            except StopIteration:
                return

    # --- the lane

    def _admit(self, said: Payload) -> Admitted:
        """Write the message to the log, and make sure that the open turn is running."""
        arrival = Arrival(
            message_id=said.message_id,
            user=self._workflow.user,
            text=said.text,
            kind=said.kind,
            reactive=said.reactive,
            payload=said.payload,
            timezone=said.timezone,
            bundle=self._bundle,
        )
        admitted = submit(self._workflow.runtime, self._lane, arrival, said.attachments)
        if admitted.duplicate:
            self._revive()
        return admitted

    def _settle(self, answer: ApprovalAnswer) -> Settled:
        """Write the answer to the log. Uses the door, as a message does."""
        with self._machine.door(self._lane):
            return answer_request(self._ports, self._lane, answer)

    def _look(self, n: int) -> tuple[State, TurnResult | None]:
        """Return the newest state, and the result of the turn that answered batch `n`, if it has ended or is parked."""
        journal = Journal(self._ports, self._lane, "run")
        batches = journal.since(n - 1, consistent=True)
        state = batches[-1].state
        found = next(filter(None, (end_for(n, batch) for batch in batches)), None)
        if found is None and (asked := pending(journal, state)) is not None:
            found = parked_result(asked)
        return state, found

    async def _wait(self, name: str) -> None:
        """Wait for an execution's end; start one that ended with its turn open again."""
        if self._machine.status(name) == "running":
            await asyncio.shield(asyncio.wrap_future(self._machine.ended(name)))
        else:
            await self._in_thread(self._revive)

    def _runs_here(self) -> bool:
        """Return True if the open turn was started here.

        Uses the door: Close puts first, then starts what it opened.
        """
        with self._machine.door(self._lane):
            state = Journal(self._ports, self._lane, "run").tail(consistent=True).state
            return state.status != "open" or self._machine.started(execution_name(self._lane, state.epoch))

    def _revive(self) -> None:
        """Make sure that the open turn is running."""
        with self._machine.door(self._lane):
            revive(self._ports, self._lane, Journal(self._ports, self._lane, "admit").tail(consistent=True))

    def _closing(self, loop: Loop) -> Callable[[Step], Step]:
        """Return Close under the lane's door, as it may open the next turn, followed by the bundle's hook."""

        def close(step: Step) -> Step:
            with self._machine.door(self._lane):
                following = loop.close(step)
            loop.follow(following)
            return following

        return close


def end_for(n: int, batch: Batch) -> TurnResult | None:
    """Return the result of the turn that ends in `batch`, unless message `n` is promoted to the next turn."""
    promoted = any(n in entry.prompts for entry in batch.entries if isinstance(entry, Opened))
    closed = next((entry for entry in batch.entries if isinstance(entry, Closed)), None)
    if promoted or closed is None:
        return None
    dropped = (entry.reason for entry in batch.entries if isinstance(entry, Dropped) and entry.n == n)
    return closed_result(closed, handed_back=next(dropped, ""))


def _jitter(most_s: float) -> float:
    return secrets.SystemRandom().uniform(0, most_s)


def _nowhere(_: Step) -> Step:
    raise DependencyError("no state machine runs here that could start a task", code="backend_unavailable")
