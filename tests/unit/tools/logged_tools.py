"""Real tools over a real log, turn by turn: each call is logged, and the next one reads the log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.model.block import Block, Body, Produced
from stepline.model.decision import Action
from stepline.rendering.result import lean_blocks
from stepline.timeline.workspace import fold_workspace
from stepline.tools.catalogue import default_registry
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.registry import run_tool
from tests.support.log_builder import LANE, LogBuilder

REGISTRY = default_registry(executes=True)


@dataclass
class LoggedTools:
    """A conversation over the real log and the real tools."""

    log: LogBuilder = field(default_factory=LogBuilder)
    artifacts: MemoryArtifacts = field(default_factory=MemoryArtifacts)

    def __post_init__(self) -> None:
        self.log.message("hello")

    @property
    def turn(self) -> str:
        return self.log.turn

    def call(self, tool: str, params: dict[str, Any]) -> ToolOutput:
        log = self.log
        log.act((tool, params))
        action = Action(call_id=log.call(), tool_id=tool, params=params)
        context = ToolContext(
            lane=LANE,
            turn=log.turn,
            call_id=action.call_id,
            iteration=0,
            ts=log.at,
            artifacts=self.artifacts,
            timeline=log.timeline(),
            caps=ReadCaps(),
        )
        output = run_tool(REGISTRY, action, context)
        blocks = lean_blocks(output.blocks, context.path("result"))
        log.result(tool=tool, status=output.status, blocks=blocks, error=output.error)
        return output

    def write(self, *paths: str) -> None:
        for path in paths:
            self.call("react.write", {"path": path, "content": f"this is {path}"})

    def keep(self, *blocks: Produced, tool: str = "exec_tools.execute_code_python") -> None:
        self.log.act((tool, {}))
        self.log.result(tool=tool, blocks=(Produced(text="Status: success"), *blocks))

    def next_turn(self) -> str:
        """End the turn, open the next one and return the one that ended."""
        ended = self.turn
        self.log.answer()
        self.log.close()
        self.log.message("go on")
        return ended

    def pull(self, *paths: str) -> dict[str, Any]:
        """Return the status of a pull."""
        output = self.call("react.pull", {"paths": list(paths)})
        assert output.status == "ok", output.error
        return json.loads(status_of(output).text)

    def ok(self, tool: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the status of a call that succeeds."""
        output = self.call(tool, params)
        assert output.status == "ok", output.error
        return json.loads(status_of(output).text)

    def fails(self, tool: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the code and the notice of a call that is refused; the files are what they were."""
        before = self.files()
        output = self.call(tool, params)
        assert output.status == "error"
        assert output.error is not None
        assert self.files() == before
        notice = next(json.loads(block.text) for block in output.blocks if block.type == "react.notice")
        assert notice["code"] == output.error["code"]
        return notice["code"], notice

    def put(self, path: str, text: str) -> None:
        self.call("react.write", {"path": path, "content": text})

    def files(self) -> dict[str, str]:
        """Return the text of every file of this turn, by its path below the turn."""
        files = fold_workspace(self.log.timeline(), self.turn)
        return {
            file.path.removeprefix(f"{self.turn}/"): self.artifacts.get(file.key).decode(errors="replace")
            for file in files
        }

    def workspace(self) -> list[str]:
        return [file.path for file in fold_workspace(self.log.timeline(), self.turn)]


def status_of(output: ToolOutput) -> Block:
    (status,) = [block for block in output.blocks if block.path.endswith(".result")]
    return status


def stored(path: str) -> Produced:
    return Produced(path=path, body=Body(key="out/k", sha256="ab" * 32, size_bytes=3, mime="text/plain"))
