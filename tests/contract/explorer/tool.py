"""Tools: one whose effect must happen at most once, one whose effect is named by its call, one that only reports."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from stepline.adapters.memory.executor import MemoryExecutor
from stepline.model.block import Block, Body
from stepline.model.program.execution import CollectedFile, ExecRequest, Run, ToolCallRecord
from stepline.ports.executor import Job
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.execute_code import exec_tool
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec

PATH = "fi:turn_x.outputs/f.md"
REPORT: Final = "test.report"
REPORTS: Final = 3
"""The reports of a run of REPORT, each with the run's number."""


def registry(effects: Counter[str], reported: Counter[str], *, once: str, mutable: bool) -> Registry:
    """Return the tools; `once` is the effect class of the first, `mutable` names files by path, as an ablation asks."""

    def strike(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        context.artifacts.put(f"effect/{context.call_id}", b"", mime="x")  # a point where the process may die
        effects[context.call_id] += 1
        return ToolOutput()

    def write(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        body = context.call_id.encode()
        key = "out/f.md" if mutable else f"out/{context.call_id}"
        context.artifacts.put(key, body, mime="text/plain")
        block = Block(
            type="react.tool.result",
            author="react",
            ts=context.ts,
            path=PATH,
            body=Body(key=key, sha256=context.call_id, size_bytes=len(body)),
        )
        return ToolOutput(blocks=(block,))

    runs = count(1)

    def report(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        run = str(next(runs))
        for done in range(1, REPORTS + 1):
            context.progress(done, REPORTS, run)
            reported[context.call_id] = done
        return ToolOutput(blocks=(context.result(REPORT, "reported"),))

    own = [
        _tool("test.once", once, strike),
        _tool("test.write", "keyed", write),
        _tool(REPORT, "pure", report),
    ]
    return Registry([*own, exec_tool()])


Ask = Callable[[ExecRequest], tuple[ToolCallRecord, ...]]


def program(process: Any, effects: Counter[str], ask: Ask) -> MemoryExecutor:
    """Return a place where a program runs: one effect between two points where the process may die, and its calls."""

    def run(job: Job) -> Run:
        call = job.request.exec_id
        process.artifacts.put(f"effect/{call}/before", b"", mime="x")
        effects[call] += 1
        process.artifacts.put(f"effect/{call}/after", b"", mime="x")
        calls = ask(job.request)
        (job.spool / "bytes").write_bytes(call.encode())
        sha256 = hashlib.sha256(call.encode()).hexdigest()
        (job.spool / "bytes").rename(job.spool / sha256)
        (promised,) = job.request.contract
        file = CollectedFile(path=promised.filename, sha256=sha256, size_bytes=len(call))
        return Run(returncode=0, files=(file,), calls=calls)

    return MemoryExecutor(run)


def _tool(tool_id: str, effect: Any, run: Any) -> Tool:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    spec = ToolSpec(tool_id=tool_id, purpose="p", schema=schema, returns="r", effect=effect, read_only=False)
    return Tool(spec=spec, run=run)
