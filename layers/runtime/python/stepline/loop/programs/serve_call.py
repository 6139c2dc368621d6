"""A call that a function makes for a running program, because the program's supervisor has no key for it.

    check     the ticket is the run's, the run goes on, the tool is granted to it, its limits leave room
    claim     for a call that may happen once only: `calls/<number>.json` of the run, put once
    call      the tool runs like in a round; each model call is noted before and after it
    answer    `calls/<number>.answer.json`, put once

A call that only reads is made again when its answer was lost. Of any other, the stored answer is returned; without one
the call is refused as `call_unverified`, so that nothing is paid for or done twice.
Source: docs/concepts/execution.md#calls-that-a-function-makes.
"""

from __future__ import annotations

import dataclasses
import hmac
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from stepline.delivery.allowance import find_excess, read_allowance
from stepline.delivery.effect import current_step
from stepline.errors import NotFoundError, PathError, SteplineError, ToolError
from stepline.log.bindings import Ports
from stepline.log.journal import Journal
from stepline.loop.agent import Agent
from stepline.loop.attempt import Attempt
from stepline.loop.programs.make_outcome import JSON_MIME, load_request
from stepline.model.batch import EMPTY, Batch
from stepline.model.decision import Action
from stepline.model.ids import Lane
from stepline.model.path import exec_key
from stepline.model.program.execution import ExecRequest
from stepline.model.program.served_call import (
    SERVED_BYTES_MAX,
    SERVED_S,
    ServedAnswer,
    ServedCall,
    parse_served,
)
from stepline.model.tenancy.charge import Amount
from stepline.model.tenancy.limits import NANOS_PER_USD
from stepline.model.usage import ModelCall, Usage, estimate_tokens
from stepline.ports.model import ModelClient, ModelRequest, ModelStream, Part
from stepline.programs.frame import pack_bytes, unpack_bytes
from stepline.programs.host import TOOL_FAILURE, Unseen, sub_call_id, value_of
from stepline.tools.context import ToolContext, ToolOutput, ToolServices
from stepline.tools.registry import Tool, check_call_params

if TYPE_CHECKING:
    from stepline.log.timeline_cache import History

logger = logging.getLogger(__name__)

POLL_S: Final = 2.0
MAYBE: Final = "the call was interrupted: it may have happened, or not, and is not made again"


def serve_call(ports: Ports, agent: Agent, history: History, call: ServedCall) -> ServedAnswer:
    """Make a call for a program and return its answer, which may be an error with its code. Raises DependencyError."""
    try:
        request, tail = _check(ports, call)
        attempt = _attempt(ports, agent, history, call.lane, tail)
        tool = _find(attempt, call.tool_id)
    except ToolError as refused:
        return ServedAnswer(code=refused.reason, message=str(refused))
    claims = tool.spec.effect == "once"
    if claims and (known := _claim(ports, call)) is not None:
        return known
    with ports.signals.watch(call.lane, request.n) as watch:
        answer = _make(dataclasses.replace(attempt, watch=watch), request, tool, call)
    return _store(ports, call, answer) if claims else answer


def _check(ports: Ports, call: ServedCall) -> tuple[ExecRequest, Batch]:
    """Return the run's request and the newest batch of its log. Raises ToolError."""
    try:
        request = load_request(ports.artifacts, call.lane, call.turn, call.exec_id)
    except NotFoundError as error:
        raise ToolError("there is no such run", code="unauthorized") from error
    granted = request.served
    if not granted.ticket or not hmac.compare_digest(call.ticket.encode(), granted.ticket.encode()):
        raise ToolError("the ticket is not this run's", code="unauthorized")
    if call.tool_id not in granted.tools:
        raise ToolError(f"{call.tool_id[:80]} is not granted to this run", code="tool_not_allowed")
    if not 0 <= call.number < granted.calls:
        raise ToolError(
            f"functions make at most {granted.calls} calls of a run", code="served_calls_exceeded"
        )
    tail = ports.log.tail(call.lane, consistent=True) or EMPTY
    state = tail.state
    if state.running != call.exec_id or state.turn != call.turn or state.bundle != call.bundle:
        raise ToolError("this run is over", code="run_over")
    return request, tail


def _attempt(ports: Ports, agent: Agent, history: History, lane: Lane, tail: Batch) -> Attempt:
    """Return the call's own attempt, which puts nothing into the log."""
    step, claim = current_step(lane, tail), tail.state.claim
    journal = Journal(ports, lane, f"serve/{step.epoch}")
    return Attempt(ports=ports, agent=agent, history=history, journal=journal, step=step, claim=claim)


def _find(attempt: Attempt, tool_id: str) -> Tool:
    """Return a granted tool; one of a server is in the list of the turn. Raises ToolError `tool_not_allowed`."""
    agent = attempt.agent
    if tool_id not in agent.registry and agent.servers is not None:
        from stepline.loop.mcp.turn_tools import equip  # noqa: PLC0415 - most agents have no servers

        agent = equip(agent, attempt.load(), attempt.ports.artifacts)
    if tool_id not in agent.registry:
        raise ToolError(f"{tool_id[:80]} is no tool of this agent any more", code="tool_not_allowed")
    return agent.registry.find(tool_id)


def _claim(ports: Ports, call: ServedCall) -> ServedAnswer | None:
    """Claim a call that may happen once only; return its answer, or that it is unknown, if it was claimed before."""
    body = msgspec.json.encode({"tool_id": call.tool_id})
    if ports.artifacts.put(_key(call, "json"), body, mime=JSON_MIME):
        return None
    try:
        return parse_served(ports.artifacts.get(_key(call, "answer.json")))
    except NotFoundError:
        return ServedAnswer(code="call_unverified", message=MAYBE)


def _store(ports: Ports, call: ServedCall, answer: ServedAnswer) -> ServedAnswer:
    ports.artifacts.put(_key(call, "answer.json"), msgspec.json.encode(answer), mime=JSON_MIME)
    return answer


def _key(call: ServedCall, ending: str) -> str:
    return exec_key(call.lane, call.turn, call.exec_id, f"calls/{call.number}.{ending}")


def _make(attempt: Attempt, request: ExecRequest, tool: Tool, call: ServedCall) -> ServedAnswer:
    """Run a call's tool; every failure is an answer."""
    made: dict[str, ModelCall] = {}
    answer = ServedAnswer()
    context: ToolContext | None = None
    try:
        params = _params(tool, call)
        context = _context(attempt, request, call, params, made)
        output = _finish(attempt, tool, tool.run(params, context), context)
        answer = _fit(pack_bytes(value_of(output)), output, context)
    except (ToolError, PathError) as refused:
        answer = ServedAnswer(code=refused.reason, message=str(refused))
    except SteplineError as error:
        logger.warning("served call failed", extra={"tool_id": tool.spec.tool_id, "code": error.reason})
        answer = ServedAnswer(code=error.reason, message=TOOL_FAILURE)
    except Exception:  # a tool's own failure is the program's to know, like one in its supervisor
        logger.exception("served call failed", extra={"tool_id": tool.spec.tool_id})
        answer = ServedAnswer(code="tool_failed", message=TOOL_FAILURE)
    emitted = context.events if context else ()
    events = tuple(replace(event, tool_id=tool.spec.tool_id) for event in emitted)
    return replace(answer, events=events, models=tuple(made.values()))


def _params(tool: Tool, call: ServedCall) -> Mapping[str, Any]:
    params = unpack_bytes(call.params)
    if not isinstance(params, Mapping):  # only now: an object may represent bytes
        raise ToolError("params is an object", code="bad_params")
    check_call_params(tool.spec, params)
    return params


def _context(
    attempt: Attempt,
    request: ExecRequest,
    call: ServedCall,
    params: Mapping[str, Any],
    made: dict[str, ModelCall],
) -> ToolContext:
    """Return the context of a tool that a program calls; `made` gets its model calls by id."""
    timeline = attempt.load()
    action = Action(call_id=sub_call_id(call.exec_id, call.number), tool_id=call.tool_id, params=dict(params))
    context = attempt.context(timeline, action, attempt.now())
    context.sources.take(call.sources)
    metering = context.metering

    def note(one: ModelCall) -> None:
        made[one.id] = one
        metering.note(one)

    return dataclasses.replace(
        context,
        timeline=Unseen(timeline),
        caps=context.caps.without_media(),
        metering=dataclasses.replace(metering, note=note),
        services=_Services(context.services, attempt, request),
        grants=None,
        store=None,
    )


def _finish(attempt: Attempt, tool: Tool, output: ToolOutput, context: ToolContext) -> ToolOutput:
    """Wait for the task of a server that the call became. Raises ToolError `task_too_long`: it is cancelled then."""
    left_s, clock = SERVED_S / 2, attempt.ports.clock
    while output.task is not None and tool.poll is not None:
        pause_s = max(output.task.poll_s or POLL_S, POLL_S)
        left_s -= pause_s
        if left_s < 0:
            if tool.cancel is not None:
                tool.cancel(output.task.id, context)
            raise ToolError(
                "the server's task takes too long for a program; call it in a round", code="task_too_long"
            )
        clock.pause(pause_s)
        output = tool.poll(output.task.id, context)
    return output


def _fit(value: Any, output: ToolOutput, context: ToolContext) -> ServedAnswer:
    """Return the answer with a tool's result. Raises ToolError `reply_too_large`."""
    answer = ServedAnswer(result=value, sources=context.sources.changed(output.sources))
    if len(msgspec.json.encode(answer)) > SERVED_BYTES_MAX:
        raise ToolError(f"the result has more than {SERVED_BYTES_MAX} bytes", code="reply_too_large")
    return answer


class _Services:
    """The services of a tool that a program calls: the model is bounded by what its run may use."""

    def __init__(self, services: ToolServices, attempt: Attempt, request: ExecRequest) -> None:
        self.settings = services.settings
        self.secrets = services.secrets
        self._services, self._attempt, self._request = services, attempt, request

    @property
    def model(self) -> ModelClient | None:
        model = self._services.model
        return None if model is None else _BoundedModel(model, self._attempt, self._request)


class _BoundedModel:
    """A model that is asked only if the run, and the budgets of its user, have room for the call."""

    def __init__(self, model: ModelClient, attempt: Attempt, request: ExecRequest) -> None:
        self._model, self._attempt, self._request = model, attempt, request

    def stream(self, request: ModelRequest) -> ModelStream:
        """Prepare a call. Raises ToolError: the code of the limit that leaves no room."""
        _check_room(self._attempt, self._request, request)
        return self._model.stream(request)


def _check_room(attempt: Attempt, run: ExecRequest, request: ModelRequest) -> None:
    """Refuse a model call for which a run, or its user, has no room. Raises ToolError, DependencyError.

    What the run has used is noted under its claims, which are newer than the log that it sees.
    """
    granted, ports, lane = run.served, attempt.ports, attempt.journal.lane
    noted = [call for calls in ports.deltas.notes(lane, run.n).values() for call in calls]
    used = sum(call.usage.prompt_tokens + call.usage.output_tokens for call in noted)
    texts = (*request.system, *(part for part in request.content if isinstance(part, Part)))
    tokens = sum(estimate_tokens(part.text) for part in texts) + request.max_tokens
    nanos = ports.policy.prices.nanos(
        ports.policy.model_of(request.role),
        Usage(input_tokens=tokens - request.max_tokens, output_tokens=request.max_tokens),
        attempt.now(),
    )
    spent = sum(call.nanos for call in noted) + (nanos or 0)
    for code, is_over, limit in (
        ("model_calls_exceeded", len(noted) >= granted.model_calls, f"{granted.model_calls} calls"),
        ("model_tokens_exceeded", used + tokens > granted.model_tokens, f"{granted.model_tokens} tokens"),
        ("model_usd_exceeded", spent > granted.model_usd * NANOS_PER_USD, f"{granted.model_usd:g} dollars"),
    ):
        if is_over:
            raise ToolError(f"a run may use the model for {limit}, and this call exceeds that", code=code)
    owner = attempt.load().state.owner
    allowance = read_allowance(ports, lane.tenant, lane.project, owner)
    if (stopped := allowance.stopped()) is not None:
        raise ToolError("work is stopped for this user", code=stopped[0].code)
    if allowance.has_budget:
        excess = find_excess(ports, allowance, need=Amount(tokens=used + tokens, nanos=spent))
        if excess is not None:
            raise ToolError("the user's budget has no room for this call", code=excess.code)
