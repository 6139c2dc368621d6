"""A program while it is written: its status, name, objective, contract and code, a lane each.

The code is that of the code channel that follows the decision, before any other decision. Once the program runs,
its status comes as durable events.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stepline.model.program.promise import read_promises
from stepline.protocol.decision.program import MISPLACED
from stepline.protocol.stream.lane import AbortReason, Emit, LaneFacts, LaneWriter, write_whole


class CodeLane(LaneWriter):
    """Program text, from its first character that is not blank on, with the blanks before it."""

    __slots__ = ("_lead", "aborted")

    def __init__(self, name: str, facts: LaneFacts, emit: Emit) -> None:
        super().__init__(name, facts, emit)
        self.aborted: AbortReason = ""
        self._lead: list[str] = []

    def take(self, text: str, /) -> None:
        """Write the next piece."""
        if not self.chars:
            self._lead.append(text)
            if text.isspace():
                return
            text = "".join(self._lead)
        self._write(text)

    def close(self, aborted: AbortReason = "") -> None:
        """End the lane, whether it is complete or not."""
        super().close(aborted)
        self.aborted = self.aborted or aborted


class ExecWidget:
    """The lanes of one program; `index` is its decision's."""

    def __init__(self, index: int, execution_id: str, emit: Emit) -> None:
        self._index = index
        self._execution_id = execution_id
        self._emit = emit
        self._status = f"exec.{index}.status"
        self._code: CodeLane | None = None
        self._failed = False

    def begin(self) -> None:
        """Show that a program is being written."""
        write_whole(self._status, self._facts("status", "json"), _json({"status": "gen"}), self._emit)

    def describe(self, notes: str, params: Mapping[str, Any]) -> None:
        """Show what the program is for, its name, and what it promises, as far as the call says so."""
        name = params.get("prog_name")
        if isinstance(name, str) and name:
            self._write("name", "program.name", "text", name)
        if notes:
            self._write("objective", "objective", "text", notes)
        if contract := read_promises(params.get("contract")):
            told = {"execution_id": self._execution_id, "contract": contract}
            self._write("contract", "contract", "json", _json(told))

    def open_code(self) -> CodeLane | None:
        """Return the lane of the program that begins; None if none is to be shown. A second one is an error."""
        if self._failed:
            return None
        if self._code and self._code.chars:
            return None
        self._code = CodeLane(
            f"code.{self._index}", self._facts("code", "text", language="python"), self._emit
        )
        return self._code

    def take_programs(self, programs: Sequence[str]) -> None:
        """Show a program that stood before its decision."""
        for program in programs:
            if lane := self.open_code():
                lane.take(program)
                lane.end()
            else:
                self.fail(MISPLACED)

    def fail(self, code: str) -> None:
        """Show that there will be no program."""
        if not self._failed:
            self._failed = True
            status = {"status": "error", "error": {"code": code}}
            facts = self._facts("status", "json", replaces=self._status)
            write_whole(f"{self._status}.1", facts, _json(status), self._emit)

    def close(self, reason: AbortReason) -> None:
        """Hear that the generation is over, and why if that was too early."""
        code = self._code
        if code is None or not code.chars:
            self.fail(f"generation_{reason}" if reason else "code_channel_missing")
        elif code.aborted or reason in ("cancelled", "provider_error"):
            self.fail(f"generation_{code.aborted or reason}")

    def _write(self, part: str, sub_type: str, form: str, text: str) -> None:
        write_whole(f"exec.{self._index}.{part}", self._facts(sub_type, form), text, self._emit)

    def _facts(self, sub_type: str, form: str, *, language: str = "", replaces: str = "") -> LaneFacts:
        return LaneFacts(
            marker="subsystem",
            format=form,
            artifact_name=f"react.exec.{self._execution_id}.{sub_type.replace('.', '_')}",
            sub_type=f"code_exec.{sub_type}",
            execution_id=self._execution_id,
            language=language,
            replaces=replaces,
        )


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
