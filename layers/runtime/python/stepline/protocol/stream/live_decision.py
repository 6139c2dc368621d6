"""The live view of one decision while it is written: its lanes, and their correction at the end.

Nothing is shown before the decision is admitted: an `OutputGate` keeps its output until `Admission` has decided. One
reader feeds it in text order, so nothing can overtake the text that waits in it.

When the decision is complete its lanes are compared with the recorded object: where that differs, as happens
when invalid JSON was repaired, a lane with the recorded text replaces the shown one.

A plan is shown as a card: the change, and its steps. A program is shown as status, name, objective, contract
and code, a lane each. The code is that of the code channel after the decision, before any other decision.
Once the program runs, its status comes as durable events.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET

from stepline.errors import DecisionError, ToolError
from stepline.model.decision import ToolCall
from stepline.model.program.promise import read_promises
from stepline.protocol.decision.body import ACTION, TOOL_ID, ActionIdentity, identify_fields, plan_marks
from stepline.protocol.decision.call_check import check_call
from stepline.protocol.decision.json_repair import repair
from stepline.protocol.decision.notice import MISPLACED
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.field import FieldStream, Path, Taker
from stepline.protocol.stream.lane import AbortReason, CodeLane, Emit, LaneFacts, LaneWriter, write_whole
from stepline.protocol.stream.record import CONTENTS, TRAITS, Record


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
        """Show the objective, name and contract of the program, as far as the call has them."""
        name = params.get("prog_name")
        if isinstance(name, str) and name:
            self._write("name", "program.name", "text", name)
        if notes:
            self._write("objective", "objective", "text", notes)
        if contract := read_promises(params.get("contract")):
            facts = {"execution_id": self._execution_id, "contract": contract}
            self._write("contract", "contract", "json", _json(facts))

    def open_code(self) -> CodeLane | None:
        """Return a lane for the program that begins; None if it is not shown. A second one is an error."""
        if self._failed:
            return None
        if self._code and self._code.chars:
            return None
        self._code = CodeLane(
            f"code.{self._index}", self._facts("code", "text", language="python"), self._emit
        )
        return self._code

    def take_programs(self, programs: Sequence[str]) -> None:
        """Show a program written before its decision."""
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
        """End the widget with the generation; `reason` is set if that ended too early."""
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


UNREAD: Final = "json_decode_error"

_FACTS: Final = (ACTION, TOOL_ID)
_NOTES: Final = ("notes",)
_ANSWER: Final = ("final_answer",)
_PARAMS: Final = ("tool_call", "params")

Ask: TypeAlias = Callable[[str, str], str]
"""Admits an action by its name and tool, or returns the code of its refusal."""


class LiveDecision:
    """One instance of the decision channel. `feed` its body piece by piece, then `close`."""

    def __init__(self, index: int, rules: RoundRules, ask: Ask, emit: Emit) -> None:
        self.widget: ExecWidget | None = None
        """The view of its program, if it runs one."""
        self._index = index
        self._rules = rules
        self._admit = ask
        self._emit = emit
        self._call_id = rules.call_id(index)
        self._identity = ActionIdentity()
        self._gate = OutputGate()
        self._fields = FieldStream(self._choose)
        self.feed = self._fields.feed
        self._lanes: list[LaneWriter] = []
        self._notes = self._lane(
            "notes", LaneFacts(marker="timeline_text", artifact_name=self._name("decision"))
        )
        answer = f"react.final_answer.{rules.iteration}.{index}"
        self._answer = self._lane("answer", LaneFacts(marker="answer", artifact_name=answer))
        self._record = Record(rules.turn, self._call_id, self._lane)

    @property
    def answer(self) -> str:
        """The answer as shown so far, with its citation tokens."""
        return self._answer.raw

    @property
    def answered(self) -> bool:
        """True if an answer was shown, and its object is complete."""
        return bool(self.answer.strip()) and self._fields.over and not self._fields.broken

    def close(self, body: str, reason: AbortReason) -> None:
        """End the body; `reason` is set if it is incomplete, `body` is all of it."""
        if reason in ("", "eof") and body.strip():
            self._settle(body)
        if self._gate.state == "pending":
            self._gate.deny()
        for lane in self._lanes:
            lane.close(reason or "eof")

    # --- while it is written

    def _choose(self, path: Path) -> Taker | None:
        """Return the taker of the value at `path`."""
        if self._gate.state == "denied":
            return None
        action = self._identity.action
        taker: Taker | None = None
        if path in _FACTS:
            taker = _Fact(self._read_action if path == ACTION else self._read_tool)
        elif path == _NOTES and action in ("", "call_tool"):
            taker = self._gate.guard(self._notes if action else _Early(lambda: self._noting))
        elif path == _ANSWER and action != "call_tool" and self._rules.accept is None:
            taker = self._gate.guard(self._answer if action else _Early(lambda: self._answering))
        elif path[:-1] == _PARAMS and action in ("", "call_tool"):
            taker = self._choose_param(path[-1])
        return taker

    def _choose_param(self, key: str) -> Taker | None:
        if key in TRAITS:
            return _Fact(lambda value: self._record.learn(key, value))
        taker = self._record.taker(key) if key in CONTENTS else None
        return self._gate.guard(taker) if taker else None

    def _read_action(self, action: str) -> None:
        self._identity = self._identity._replace(action=action)
        self._ask_if_known()

    def _read_tool(self, tool_id: str) -> None:
        self._identity = self._identity._replace(tool_id=tool_id)
        self._ask_if_known()

    def _ask_if_known(self) -> None:
        if self._gate.state == "pending" and self._identity.known:
            self._ask(self._identity)

    def _ask(self, identity: ActionIdentity) -> None:
        """Open the gate if the decision is admitted, else close it for good."""
        self._identity = identity
        if self._admit(identity.action, identity.tool_id):
            self._gate.deny()
            return
        if self._calls:
            self._record.settle(identity.tool_id)
            if self._rules.tools[identity.tool_id].runs_code:
                self.widget = ExecWidget(self._index, self._call_id, self._emit)
                self.widget.begin()
        self._gate.allow()

    @property
    def _calls(self) -> bool:
        return self._identity.action == "call_tool"

    @property
    def _noting(self) -> LaneWriter | None:
        """The lane of streamed notes; of an answer's notes only plan marks are kept, so they wait."""
        return self._notes if self._calls else None

    @property
    def _answering(self) -> LaneWriter | None:
        """The lane of the answer, if the decision is one."""
        return None if self._calls else self._answer

    # --- when it is complete

    def _settle(self, body: str) -> None:
        """Replace streamed text that differs from the recorded decision."""
        found = repair(body)
        if self._gate.state == "pending":
            self._gate.forget()  # written again below, from the parsed object
            self._ask(identify_fields(found.fields if found else {}))
        if self._gate.state == "denied":
            return
        if found and not self._identity.same(identify_fields(found.fields)):
            found = None  # it will be refused, so the shown text is not corrected
        if found is None or (found.guessed and self._calls and self._rules.strict):
            if self.widget:
                self.widget.fail(UNREAD)
            return
        call = found.fields.get("tool_call")
        params = call.get("params") if isinstance(call, dict) else None
        self._correct(found.fields, params if isinstance(params, dict) else {})

    def _correct(self, fields: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        notes = fields.get("notes")
        notes = notes if isinstance(notes, str) else ""
        self._notes = self._put_right(self._notes, notes if self._calls else plan_marks(notes))
        if not self._calls:
            if self._fits(fields):
                self._answer = self._put_right(self._answer, fields.get("final_answer"))
            return
        if self._record.writes:
            self._finish_record(params)
        if self.widget:
            self._describe(self.widget, notes, params)
        tool_id = self._identity.tool_id
        if tool_id == PLAN and not self._rules.tools[tool_id].validate(params):
            facts = LaneFacts(
                marker="timeline_text", artifact_name=self._name("plan"), execution_id=self._call_id
            )
            card = self._lane("plan", facts)
            card.take(render_plan_card(params))
            card.end()

    def _fits(self, fields: Mapping[str, Any]) -> bool:
        """Return True if an answer may be shown: that of a refused value would have to be taken back."""
        accept = self._rules.accept
        if accept is None or self._identity.action != "complete":
            return True
        from stepline.protocol.decision.result_value import accepted_value  # noqa: PLC0415 - few agents have a result type

        try:
            accepted_value(fields.get("value", UNSET), accept)
        except ToolError:
            return False
        return True

    def _describe(self, widget: ExecWidget, notes: str, params: Mapping[str, Any]) -> None:
        """Show the program's description; show that there will be none if the call violates its contract."""
        call = ToolCall(tool_id=self._identity.tool_id, params=dict(params))
        try:
            check_call(call, self._rules.tools, self._rules.allowed)
        except DecisionError as refused:
            widget.fail(refused.reason)
        else:
            widget.describe(notes, params)

    def _finish_record(self, params: Mapping[str, Any]) -> None:
        record = self._record
        if record.lane is None:
            record.relearn(params)
        record.finish()
        if record.lane:
            record.lane = self._put_right(record.lane, record.content(params))

    def _put_right(self, lane: LaneWriter, text: object) -> LaneWriter:
        """Return a lane that holds `text`: this one, or a new one that replaces it."""
        if not isinstance(text, str) or not text or text == lane.raw:
            return lane
        if lane.raw or lane.closed:
            lane.close("eof")
            lane = lane.successor()
            self._lanes.append(lane)
        lane.take(text)
        lane.end()
        return lane

    def _lane(self, kind: str, facts: LaneFacts) -> LaneWriter:
        lane = LaneWriter(f"{kind}.{self._index}", facts, self._emit, sources=self._rules.sources)
        self._lanes.append(lane)
        return lane

    def _name(self, what: str) -> str:
        return f"timeline_text.react.{what}.{self._rules.iteration}.{self._index}"


class _Early:
    """Receives text that came before the action; its lane is found once the gate opens."""

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[], LaneWriter | None]) -> None:
        self._find = find

    def take(self, text: str, /) -> None:
        if lane := self._find():
            lane.take(text)

    def end(self) -> None:
        if lane := self._find():
            lane.end()


class _Fact:
    """Receives a short value that others depend on."""

    __slots__ = ("_pieces", "_receive")

    def __init__(self, receive: Callable[[str], None]) -> None:
        self._pieces: list[str] = []
        self._receive = receive

    def take(self, text: str, /) -> None:
        self._pieces.append(text)

    def end(self) -> None:
        self._receive("".join(self._pieces))


GateState: TypeAlias = Literal["pending", "allowed", "denied"]


class OutputGate:
    """Pending: text is kept. Allowed: kept text is passed on, then new text. Denied: all text is dropped."""

    def __init__(self) -> None:
        self.state: GateState = "pending"
        self._kept: deque[tuple[Taker, str | None]] = deque()

    def guard(self, taker: Taker) -> Taker | None:
        """Return a substitute for `taker` for a value that begins now; None if it is not shown."""
        if self.state == "pending":
            return _Waiting(self, taker)
        return taker if self.state == "allowed" else None

    def push(self, taker: Taker, text: str | None) -> None:
        """Pass on a piece for `taker`, or None for its end."""
        if self.state == "pending" or self._kept:
            self._kept.append((taker, text))
        elif self.state == "allowed":
            _pass_on(taker, text)

    def forget(self) -> None:
        """Drop the kept text; later text is treated as before."""
        self._kept.clear()

    def allow(self) -> None:
        """Pass on all kept text in order, and all later text."""
        self.state = "allowed"
        while self._kept:  # text pushed meanwhile is appended
            _pass_on(*self._kept[0])
            self._kept.popleft()

    def deny(self) -> None:
        """Drop all kept and later text."""
        self.state = "denied"
        self._kept.clear()


class _Waiting:
    """A taker whose text waits at a gate."""

    __slots__ = ("_gate", "_taker")

    def __init__(self, gate: OutputGate, taker: Taker) -> None:
        self._gate = gate
        self._taker = taker

    def take(self, text: str, /) -> None:
        self._gate.push(self._taker, text)

    def end(self) -> None:
        self._gate.push(self._taker, None)


def _pass_on(taker: Taker, text: str | None) -> None:
    if text is None:
        taker.end()
    else:
        taker.take(text)


PLAN: Final = "react.plan"

_TITLES: Final = {
    "new": "Plan",
    "replace": "New plan",
    "activate": "Back to the plan",
    "close": "Plan closed",
}


def render_plan_card(params: Mapping[str, Any]) -> str:
    """Return the card of a valid `react.plan` call: a title, its subject, one line per step."""
    steps = params.get("steps") or ()
    lines = [_TITLES.get(params.get("mode", "new"), _TITLES["new"])]
    if about := params.get("plan_id") or (
        f"{len(steps)} step{'s' if len(steps) > 1 else ''}" if steps else ""
    ):
        lines.append(f"└ {about}")
    lines += [f"□ {' '.join(str(step).split())}" for step in steps]
    return "\n".join(lines)
