"""The host of a run's tools: look up a call among the granted tools, run it or have it made, and record it.

Nothing is looked up by attribute or module name: a call must name the id of a tool that is registered, meant for
programs, and granted to this run; otherwise it is refused. A function makes the calls of the run's `served` tools, because
it has the keys for them.
Source: docs/reference/executor-protocol.md#tools.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.errors import DependencyError, PathError, ToolError
from stepline.model.block import Block
from stepline.model.ids import utc
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ServedGrant, ToolCallRecord, ToolEvent
from stepline.model.program.served_call import SERVED_BYTES_MAX, ServedAnswer
from stepline.model.source import Source
from stepline.model.usage import ModelCall, Usage, join_calls, sum_usages
from stepline.ports.clock import Clock
from stepline.programs.frame import REPLY_BYTES_MAX, pack_bytes, unpack_bytes
from stepline.rendering.excerpt import cap_params
from stepline.rendering.piece import Attached, Piece, Shown
from stepline.rendering.turn_facts import Turn
from stepline.tools.context import Resolver, ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool, check_call_params
from stepline.tools.sources import SourcePool

logger = logging.getLogger(__name__)

RESULT_BYTES_MAX: Final = REPLY_BYTES_MAX - 1024
"""Maximum bytes of a result in its frame; the rest is for the reply around it."""

RET_CHARS: Final = 4_000
PARAMS_CHARS: Final = 16_000
TOOL_ID_CHARS: Final = 120

UNFINISHED: Final = "unfinished"
NOT_SERVED: Final = ServedGrant()
DECLARED_ONLY: Final = ("mcp.", "model_tools.")
"""The beginnings of tools that programs have only if their bundle declares them."""
TOOL_FAILURE: Final = "the tool failed; that is not the program's mistake"
ASK_TRIES: Final = 2
"""How often a call is asked for whose answer was lost: by its number it is made once."""
UNREACHED: Final = "the call could not be made; that is not the program's mistake"
RENUMBERED_MAX: Final = 3
"""How often a call is made that numbered its sources like another one at the same time."""
INSTEAD: Final = {
    "react.write": "write the file with open() below OUTPUT_DIR and name it in the contract",
    "react.patch": "change the file with open() below OUTPUT_DIR and name it in the contract",
    "react.rg": "open and search the files below OUTPUT_DIR",
    "react.checkout": "end the program; the agent takes the files over and runs a program again",
    "react.pull": "end the program; the agent pulls the file and runs a program again",
    "react.memsearch": "end the program; the agent searches, and a program reads the paths of this conversation",
    "exec_tools.execute_code_python": "a program does not start another run; import what you need",
}
"""Alternatives for a program to calls that only the agent may make."""


def sub_call_id(exec_id: str, index: int) -> str:
    """Return `tc_<12 hex>` of the program's call number `index`, from 0."""
    return f"tc_{hashlib.sha256(f'{exec_id}/{index}'.encode()).hexdigest()[:12]}"


Ask: TypeAlias = Callable[[int, str, Any, tuple[Source, ...]], ServedAnswer]
"""Has a function make a call: its number in the run, the tool, the parameters as JSON, and the run's new sources.

Raises DependencyError.
"""


def ask_nothing(_number: int, tool_id: str, _params: Any, _sources: tuple[Source, ...]) -> ServedAnswer:
    """Refuse a call: no function is asked here."""
    raise ToolError(f"no function makes calls of {tool_id} here", code="calls_unavailable")


class Unseen:
    """The conversation as a program sees it: nothing counts as visible, so nothing is left out."""

    def __init__(self, timeline: Resolver) -> None:
        self._timeline = timeline

    @property
    def plans(self) -> Mapping[str, Plan]:
        return self._timeline.plans

    @property
    def turns(self) -> tuple[str, ...]:
        return self._timeline.turns

    @property
    def history(self) -> Sequence[Turn]:
        return self._timeline.history

    @property
    def pieces(self) -> Sequence[Piece]:
        return ()

    @property
    def media(self) -> Sequence[Attached]:
        return ()

    def resolve(self, path: str) -> tuple[Block, ...]:
        return self._timeline.resolve(path)

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        return self._timeline.turn_blocks(turn)

    def visible(self, path: str) -> Shown | None:
        return None


class ToolHost:
    """The tools of one run. Several threads may call."""

    def __init__(
        self,
        *,
        registry: Registry,
        allowed: Collection[str],
        context: Callable[[str], ToolContext],
        clock: Clock,
        exec_id: str,
        served: ServedGrant = NOT_SERVED,
        ask: Ask = ask_nothing,
    ) -> None:
        """Grant the tools `allowed` of `registry`; `context` makes the context of a call from its id.

        `ask` has the calls of the `served` tools made.
        All contexts share one pool of sources, so that no two calls give the same number to different sources.
        """
        self._registry = registry
        self._allowed = frozenset(allowed)
        self._context = context
        self._clock = clock
        self._exec_id = exec_id
        self._served = served
        self._ask = ask
        self._asked = 0
        self._lock = threading.Lock()
        # A separate lock: invalid parameters cost time and memory, so they are checked one call at a time.
        self._checking = threading.Lock()
        self._records: list[ToolCallRecord] = []
        self._events: list[tuple[ToolEvent, ...]] = []
        self._sources: dict[int, Source] = {}

    @property
    def calls(self) -> list[ToolCallRecord]:
        """The calls in the order in which they began; a running one has the code `unfinished`."""
        with self._lock:
            return list(self._records)

    @property
    def events(self) -> list[ToolEvent]:
        """The events that the finished calls emitted, in the order of the calls."""
        with self._lock:
            return [event for emitted in self._events for event in emitted]

    @property
    def sources(self) -> list[Source]:
        """The rows of the pool from the finished calls, ascending."""
        with self._lock:
            return [self._sources[sid] for sid in sorted(self._sources)]

    def call(self, tool_id: Any, params: Any) -> Any:
        """Run one call and return its JSON value.

        Raises:
            ToolError: `unknown_tool`, `tool_not_allowed`, `bad_params`, `reply_too_large`, `tool_failed`, or the
                tool's own code.
        """
        started_s = self._clock.monotonic_s()
        index, record = self._open(tool_id, params)
        events: list[ToolEvent] = []
        try:
            value, ret = self._attempt(tool_id, params, index, events)
        except ToolError as refused:
            ret = msgspec.json.encode({"code": refused.reason, "message": str(refused)})
            self._close(index, _ended(record, ret, started_s, self._clock, code=refused.reason), events)
            raise
        self._close(index, _ended(record, ret, started_s, self._clock), events)
        return value

    def _attempt(self, tool_id: Any, params: Any, index: int, events: list[ToolEvent]) -> tuple[Any, bytes]:
        """Look a tool up and run it. If that fails, the program gets only the part of the error meant for it."""
        try:
            if isinstance(tool_id, str) and tool_id in self._served.tools:
                return self._have_made(tool_id, params, index, events)
            return self._run(self._find(tool_id), params, index, events)
        except ToolError:
            raise
        except PathError as refused:
            raise ToolError(str(refused), code=refused.reason) from refused
        except Exception as error:
            logger.exception("tool failed", extra={"tool_id": _shown(tool_id), "exec_id": self._exec_id})
            raise ToolError(TOOL_FAILURE, code="tool_failed") from error

    def _find(self, tool_id: Any) -> Tool:
        """Return a tool that this run may call; tools are denied by default."""
        granted = ", ".join(sorted((*self._allowed, *self._served.tools))) or "no tool"
        if isinstance(tool_id, str) and tool_id.startswith(DECLARED_ONLY):
            raise ToolError(
                f"{_shown(tool_id)} is not granted to this run, which may call {granted}; a bundle declares what else its "
                "programs may call",
                code="tool_not_allowed",
            )
        if not isinstance(tool_id, str) or tool_id not in self._registry:
            raise ToolError(
                f"there is no tool {_shown(tool_id)!r}; this program may call {granted}", code="unknown_tool"
            )
        tool = self._registry.find(tool_id)
        if not tool.spec.in_exec:
            instead = INSTEAD.get(tool_id, "end the program and leave this call to the agent's next round")
            raise ToolError(f"{tool_id} is the agent's own call: {instead}", code="tool_not_allowed")
        if tool_id not in self._allowed:
            raise ToolError(
                f"{tool_id} is not granted to this run, which may call {granted}; a call that needs a person is the agent's own",
                code="tool_not_allowed",
            )
        return tool

    def _run(self, tool: Tool, params: Any, index: int, events: list[ToolEvent]) -> tuple[Any, bytes]:
        """Return the program's result, as a value and as JSON."""
        with self._checking:
            given = unpack_bytes(params)
            if not isinstance(given, Mapping):  # only now: an object may represent bytes
                raise ToolError("params is an object", code="bad_params")
            check_call_params(tool.spec, given)
            # Under the lock, too: the first context creates the state that all calls share, above all the pool.
            context = self._context(sub_call_id(self._exec_id, index))
        context = dataclasses.replace(
            context, timeline=Unseen(context.timeline), caps=context.caps.without_media()
        )
        try:
            output = tool.run(given, context)
            value = pack_bytes(value_of(output))
            ret = msgspec.json.encode(value)
        finally:
            events += (replace(event, tool_id=tool.spec.tool_id) for event in context.events)
            self._bill(index, context)
        if len(ret) > RESULT_BYTES_MAX:
            raise ToolError(f"the result has more than {RESULT_BYTES_MAX} bytes", code="reply_too_large")
        with self._lock:
            self._sources |= {row.sid: row for row in context.sources.changed(output.sources)}
        return value, ret

    def _have_made(self, tool_id: str, params: Any, index: int, events: list[ToolEvent]) -> tuple[Any, bytes]:
        """Have a function make a call; return the program's result, as a value and as JSON."""
        if not isinstance(params, Mapping):
            raise ToolError("params is an object", code="bad_params")
        for _ in range(RENUMBERED_MAX):
            answer = self._answer(tool_id, params, index)
            events += answer.events
            if answer.models:
                self._add_models(index, answer.models)
            if answer.code:
                raise ToolError(answer.message, code=answer.code)
            # Only reading tools have sources, and they may be called again.
            if not answer.sources or self._pool(index).take(answer.sources):
                with self._lock:
                    self._sources |= {row.sid: row for row in answer.sources}
                return answer.result, msgspec.json.encode(answer.result)
            events.clear()
        raise ToolError("calls at the same time numbered their sources alike", code="sources_contended")

    def _answer(self, tool_id: str, params: Mapping[str, Any], index: int) -> ServedAnswer:
        """Return a function's answer. Raises ToolError `served_calls_exceeded`, `call_too_large`, `call_failed`."""
        with self._lock:
            number, most, sources = self._asked, self._served.calls, tuple(self._sources.values())
            if number >= most:
                raise ToolError(f"functions make at most {most} calls of a run", code="served_calls_exceeded")
            self._asked += 1
        if len(msgspec.json.encode([params, sources])) > SERVED_BYTES_MAX:
            raise ToolError(
                f"a call of {tool_id} has at most {SERVED_BYTES_MAX} bytes", code="call_too_large"
            )
        for tries in range(ASK_TRIES, 0, -1):
            try:
                return self._ask(number, tool_id, params, sources)
            except DependencyError as error:
                logger.warning("call not made", extra={"code": error.reason, "exec_id": self._exec_id})
                if tries == 1:
                    raise ToolError(UNREACHED, code="call_failed") from error
        raise AssertionError

    def _pool(self, index: int) -> SourcePool:
        with self._checking:
            return self._context(sub_call_id(self._exec_id, index)).sources

    def _open(self, tool_id: Any, params: Any) -> tuple[int, ToolCallRecord]:
        """Record the beginning of a call, so that a call that never ends is recorded, too."""
        shown, cut = _shown_params(params)
        record = ToolCallRecord(
            tool_id=_shown(tool_id),
            params=shown,
            status="error",
            at=utc(self._clock.now()),
            code=UNFINISHED,
            truncated=cut,
        )
        with self._lock:
            self._records.append(record)
            self._events.append(())
            return len(self._records) - 1, record

    def _bill(self, index: int, context: ToolContext) -> None:
        """Record the model calls of a call, also of one that failed."""
        if context.usages:
            self._add_models(
                index, join_calls(context.metering.ledger.take_calls()), sum_usages(context.usages)
            )

    def _add_models(self, index: int, models: tuple[ModelCall, ...], used: Usage | None = None) -> None:
        used = used or sum_usages(call.usage for call in models)
        with self._lock:
            self._records[index] = replace(self._records[index], usage=used, models=models)

    def _close(self, index: int, record: ToolCallRecord, events: list[ToolEvent]) -> None:
        with self._lock:
            billed = self._records[index]
            self._records[index] = replace(record, usage=billed.usage, models=billed.models)
            self._events[index] = tuple(events)


def value_of(output: ToolOutput) -> Any:
    """Return the JSON value of an output: the tool's own for programs, or its blocks."""
    if output.ret is not None:
        return output.ret
    blocks = [{"path": block.path, "mime": block.mime, "text": block.text} for block in output.blocks]
    error = {"error": output.error} if output.error else {}
    return {"status": output.status, **error, "blocks": blocks}


def _ended(
    record: ToolCallRecord, ret: bytes, started_s: float, clock: Clock, *, code: str = ""
) -> ToolCallRecord:
    text = ret.decode()
    return replace(
        record,
        status="error" if code else "ok",
        code=code,
        duration_ms=round((clock.monotonic_s() - started_s) * 1000),
        ret=text[:RET_CHARS],
        truncated=record.truncated or len(text) > RET_CHARS,
    )


def _shown(tool_id: Any) -> str:
    return tool_id[:TOOL_ID_CHARS] if isinstance(tool_id, str) else ""


def _shown_params(params: Any) -> tuple[dict[str, Any], bool]:
    """Return the parameters in the form that is recorded, and whether they are incomplete.

    Long values are cut individually; an object that is still too long, because it has many values, is kept as the
    beginning of its JSON.
    """
    if not isinstance(params, dict):
        return {}, params is not None
    kept, omitted = cap_params(params)
    text = msgspec.json.encode(kept).decode()
    if len(text) <= PARAMS_CHARS:
        return kept, bool(omitted)
    return {"preview": text[:RET_CHARS], "truncated": True, "text_symbols": len(text)}, True
