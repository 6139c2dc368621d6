"""The tools of a project beside what does the same on a disk: `react.rg` and ripgrep, a pull or a checkout and `cp -r`.

The files are in the memory twins, those of the others on a disk in the page cache. Times are CPU time, that of a
program's process with its threads.
"""

from __future__ import annotations

import hashlib
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.row import MeasureError, Row
from bench.timing import cpu_ms, interleave
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.model.block import Body, Produced
from stepline.model.decision import Action
from stepline.rendering.result import lean_blocks
from stepline.timeline.workspace import fold_workspace
from stepline.tools.catalogue import default_registry
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.registry import run_tool
from tests.support.log_builder import LANE, LogBuilder

SEARCHED, COPIED = 10_000, 1_000
LINES: Final = 40
EVERY: Final = 100
"""One file in this many has the word that is searched for."""
ROUNDS: Final = 5
PATTERN: Final = r"heron_[0-9]+"


class Project:
    """A conversation whose first turn wrote a project, and the same files in a folder."""

    def __init__(self, count: int, folder: Path) -> None:
        self.log, self.artifacts, self.folder = LogBuilder(), MemoryArtifacts(), folder
        self.log.message("hello")
        self.first = self.log.turn
        self.log.act(("exec_tools.execute_code_python", {}))
        blocks = [self._keep(n) for n in range(count)]
        self.log.result(
            tool="exec_tools.execute_code_python", blocks=(Produced(text="Status: success"), *blocks)
        )
        self.log.answer()
        self.log.close()
        self.log.message("go on")

    def _keep(self, n: int) -> Produced:
        word = f"heron_{n}" if n % EVERY == 0 else "sparrow"
        lines = [f"def function_{line}(value): return value * {n + line}" for line in range(LINES)]
        data = "\n".join([*lines, f"BIRD = '{word}'", ""]).encode()
        rel = f"package_{n % 50}/module_{n}.py"
        (self.folder / rel).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / rel).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        self.artifacts.put(f"out/{digest}", data, mime="text/x-python")
        body = Body(key=f"out/{digest}", sha256=digest, size_bytes=len(data), mime="text/x-python")
        return Produced(path=f"fi:{self.first}.files/{rel}", body=body, meta={"silent": True})

    def run(self, tool: str, params: dict[str, object]) -> tuple[ToolOutput, ToolContext]:
        """Run a call over the log as a cold process does: folded again."""
        action = Action(call_id="tc_0123456789ab", tool_id=tool, params=params)
        context = ToolContext(
            lane=LANE,
            turn=self.log.turn,
            call_id=action.call_id,
            iteration=0,
            ts=self.log.at,
            artifacts=self.artifacts,
            timeline=self.log.timeline(),
            caps=ReadCaps(),
        )
        return run_tool(default_registry(), action, context), context

    def log_result(self, tool: str, params: dict[str, object]) -> None:
        """Run a call and put its result."""
        output, context = self.run(tool, params)
        self.log.act((tool, params))
        self.log.result(tool=tool, blocks=lean_blocks(output.blocks, context.path("result")))

    def workspace(self) -> int:
        return len(fold_workspace(self.log.timeline(), self.log.turn))


def rows() -> list[Row]:
    """Return `rg_x_ripgrep`, `pull_x_cp`, `checkout_x_cp`."""
    with tempfile.TemporaryDirectory() as folder:
        return [_search(Path(folder) / "searched"), *_copies(Path(folder))]


def _search(folder: Path) -> Row:
    project = Project(SEARCHED, folder)
    project.log_result("react.pull", {"paths": [f"fi:{project.first}.files/"]})
    params = {"pattern": PATTERN, "max_matches": 1_000, "max_files": 1_000}
    output, _ = project.run("react.rg", params)
    found = f'"match_count":{SEARCHED // EVERY}'
    if not any(found in block.text for block in output.blocks):
        raise MeasureError("react.rg did not find every line")
    other = shutil.which("rg")
    if other is None:
        return Row(metric="rg_x_ripgrep", value=None, unit="x", note="no ripgrep on this machine")
    command = [other, "--no-config", "--no-ignore", "--line-number", PATTERN, str(folder)]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.count(b"\n")
    if lines != SEARCHED // EVERY:
        raise MeasureError("ripgrep did not find every line")
    names = _read_names(folder)
    times = interleave(
        {
            "react.rg": lambda: cpu_ms(lambda: project.run("react.rg", params)),
            "ripgrep": lambda: _child_ms(command),
            "find and re": lambda: cpu_ms(lambda: _naive(names)),
        },
        ROUNDS,
    )
    return Row(
        metric="rg_x_ripgrep",
        value=round(times["react.rg"] / times["ripgrep"], 2),
        unit="x",
        peers={f"{name}, ms": taken for name, taken in times.items()},
        note=f"{SEARCHED} files of {LINES} lines, {SEARCHED // EVERY} of them with the word; the log is folded anew",
    )


def _read_names(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _naive(names: list[Path]) -> int:
    import re

    pattern = re.compile(PATTERN)
    return sum(
        pattern.search(line) is not None
        for name in names
        for line in name.read_text(encoding="utf-8").split("\n")
    )


def _copies(folder: Path) -> list[Row]:
    source = folder / "project"
    project = Project(COPIED, source)
    root = f"fi:{project.first}.files/"

    def copy() -> float:
        target = folder / "copy"
        taken = _child_ms(["cp", "-r", str(source), str(target)])
        shutil.rmtree(target)
        return taken

    calls: dict[str, dict[str, object]] = {
        "react.pull": {"paths": [root]},
        "react.checkout": {"paths": [root]},
    }
    samples: dict[str, Callable[[], float]] = {
        tool: lambda tool=tool, params=params: cpu_ms(lambda: project.run(tool, params))  # type: ignore[misc]
        for tool, params in calls.items()
    }
    times = interleave({**samples, "cp -r": copy}, ROUNDS)
    for tool, params in calls.items():
        project.log_result(tool, params)
    if project.workspace() != 2 * COPIED:
        raise MeasureError("a pull or a checkout left files out")
    return [
        Row(
            metric=f"{tool.removeprefix('react.')}_x_cp",
            value=round(times[tool] / times["cp -r"], 2),
            unit="x",
            peers={f"{name}, ms": times[name] for name in (tool, "cp -r")},
            note=f"{COPIED} files of a folder; no byte is copied, the log is folded anew",
        )
        for tool in calls
    ]


def _child_ms(command: list[str]) -> float:
    """Return the CPU time of a program, its threads included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000
