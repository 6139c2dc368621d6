"""The host of a run's tools: look up a call among the registered tools, run it, and record it.

Nothing is looked up by attribute or module name: a call must name the id of a tool that is registered, meant for
programs, and granted to this run; otherwise it is refused.
Source: docs/reference/executor-protocol.md#tools.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.errors import PathError, ToolError
from stepline.model.block import Block
from stepline.model.ids import utc
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ToolCallRecord, ToolEvent
from stepline.model.source import Source
from stepline.model.usage import join_calls, sum_usages
from stepline.ports.clock import Clock
from stepline.programs.frame import REPLY_BYTES_MAX, pack_bytes, unpack_bytes
from stepline.rendering.excerpt import cap_params
from stepline.rendering.piece import Attached, Piece, Shown
from stepline.rendering.turn_facts import Turn
from stepline.tools.context import Resolver, ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool, check_call_params

logger = logging.getLogger(__name__)

RESULT_BYTES_MAX: Final = REPLY_BYTES_MAX - 1024
"""Maximum bytes of a result in its frame; the rest is for the reply around it."""

RET_CHARS: Final = 4_000
PARAMS_CHARS: Final = 16_000
TOOL_ID_CHARS: Final = 120

UNFINISHED: Final = "unfinished"
TOOL_FAILURE: Final = "the tool failed; that is not the program's mistake"
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


class _Unseen:
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
    ) -> None:
        """Grant the tools `allowed` of `registry`; `context` makes the context of a call from its id.

        All contexts share one pool of sources, so that no two calls give the same number to different sources.
        """
        self._registry = registry
        self._allowed = frozenset(allowed)
        self._context = context
        self._clock = clock
        self._exec_id = exec_id
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
        granted = ", ".join(sorted(self._allowed)) or "no tool"
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
            context, timeline=_Unseen(context.timeline), caps=context.caps.without_media()
        )
        try:
            output = tool.run(given, context)
            value = pack_bytes(_value(output))
            ret = msgspec.json.encode(value)
        finally:
            events += (replace(event, tool_id=tool.spec.tool_id) for event in context.events)
            self._bill(index, context)
        if len(ret) > RESULT_BYTES_MAX:
            raise ToolError(f"the result has more than {RESULT_BYTES_MAX} bytes", code="reply_too_large")
        with self._lock:
            self._sources |= {row.sid: row for row in context.sources.changed(output.sources)}
        return value, ret

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
            used, models = sum_usages(context.usages), join_calls(context.metering.ledger.take_calls())
            with self._lock:
                self._records[index] = replace(self._records[index], usage=used, models=models)

    def _close(self, index: int, record: ToolCallRecord, events: list[ToolEvent]) -> None:
        with self._lock:
            billed = self._records[index]
            self._records[index] = replace(record, usage=billed.usage, models=billed.models)
            self._events[index] = tuple(events)


def _value(output: ToolOutput) -> Any:
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
