"""A conversation with the scripted model: the real layout and the real protocol, tools of three lines each."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stepline.context.announce import Announced, render_announce
from stepline.local.scripted.policy import answer_view
from stepline.local.scripted.reading import parse_view
from stepline.model.block import Body, Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import Decided, Inbound, Opened, Resulted
from stepline.model.ids import Lane
from stepline.model.program.execution import ExecRequest, Run
from stepline.programs.envelope import make_envelope
from stepline.programs.outputs import Verdicts
from stepline.protocol.decision.read import read_decision
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel import read_channels
from stepline.rendering.inbound import event_place, prompt_places
from stepline.rendering.render_entry import render_event, render_opening, render_prompt
from stepline.tools.catalogue import default_registry
from tests.unit.timeline.words import render_decision, render_result

TOOLS = {spec.tool_id: spec for spec in default_registry(executes=True).specs}
TURN = "turn_20261121T101010_abcdef"
AT = "2026-11-21T10:10:10Z"
PLAN_REQUEST = (
    "Make a plan with three steps, write it to a file with the word <tulip-42> in it and read it back."
)


class Desk:
    """A conversation whose tools are three lines each; `files` is the disk between write and read.

    `report` is what a program's run is said to have come to, `tools` what the agent has.
    """

    def __init__(self, *said: str) -> None:
        self.text = ""
        self.files: dict[str, str] = {}
        self.calls: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.codes: list[str] = []
        self.report = report_of()
        self.tools = tuple(TOOLS)
        self.turns = 0
        self.rounds = 0
        for text in said:
            self.say(text)

    def say(self, text: str, kind: str = "prompt", **fields: Any) -> None:
        """Open a turn, by a message or by another event."""
        self.turns += 1
        self.rounds = 0
        self.text += render_opening(Opened(turn=self.turn, at=AT, prompts=(1,)))
        event = self._inbound(kind, text, **fields)
        (place,) = prompt_places(self.turn, [event])
        self.text += render_prompt(event, place.path, "", place.files)

    def event(self, kind: str, text: str, **fields: Any) -> None:
        """Let something come from outside while the turn is open."""
        event = self._inbound(kind, text, **fields)
        place = event_place(self.turn, event)
        self.text += render_event(event, place.path, place.files)

    @property
    def turn(self) -> str:
        return TURN[:-1] + str(self.turns)

    def prompt(self, *, at: int | None = None, of: int = 15, last: bool = False, finalize: int = 0) -> str:
        told = Announced(
            now=AT,
            turn=self.turn,
            iteration=(at or self.rounds + 1) - 1,
            max_iterations=of,
            reserved=last,
            finalize=finalize,
        )
        return f"{self.text}\n{render_announce(told)}"

    def ask(self, *, last: bool = False, **announce: Any) -> dict[str, Any]:
        """Return the next decision as the runtime reads it, without acting on it."""
        view = parse_view(self.prompt(last=last, **announce))
        transcript = read_channels(answer_view(view, self.tools))
        verdict = read_decision(
            transcript,
            RoundRules(
                tools=TOOLS,
                allowed=self.tools,
                call_id=lambda n: f"tc_{n:012d}",
                turn=self.turn,
                iteration=self.rounds,
                last_round=last,
            ),
        )
        assert verdict.accepted, verdict.notices
        assert verdict.notices == ()
        assert verdict.decision is not None
        assert bool(verdict.summary) == (verdict.decision.action == "complete")
        decision = msgspec.to_builtins(verdict.decision)
        code = verdict.actions[0].code if verdict.actions else None
        return {"thinking": " ".join(verdict.thinking), "code": code, **decision}

    def run(self, *, status: str = "ok", max_rounds: int = 8) -> str:
        """Act on decisions until the model completes; return its answer."""
        for _ in range(max_rounds):
            decision = self.ask()
            if decision["action"] == "complete":
                return str(decision["final_answer"])
            self.act(decision, status=status)
        raise AssertionError("the model did not come to an end")

    def act(self, decision: dict[str, Any], *, status: str = "ok") -> None:
        call = decision["tool_call"]
        tool, params = call["tool_id"], call["params"]
        call_id = f"tc_{self.turns}{self.rounds:011d}"
        action = Action(call_id=call_id, tool_id=tool, params=params, code=decision["code"])
        self.calls.append(call)
        self.codes.append(decision["code"] or "")
        self.notes.append(decision.get("notes", ""))
        decided = self._decided(
            actions=(action,), thinking=(decision["thinking"],), notes=decision.get("notes", "")
        )
        self.text += render_decision(decided, self.turn, attempt=0, unseen=())
        resulted = Resulted(
            call_id=call_id,
            tool_id=tool,
            iteration=self.rounds,
            status=status,  # type: ignore[arg-type] # the tests name one of its words
            at=AT,
            blocks=self._effect(tool, params, call_id) if status == "ok" or decision["code"] else (),
            error=None if status == "ok" else {"code": "boom"},
        )
        self.text += render_result(resulted, self.turn, last=True)
        self.rounds += 1

    def violate(self) -> None:
        """Record that the last output broke the protocol."""
        notice = Notice(code="protocol_violation.action_schema_error", message="no valid decision")
        self.text += render_decision(
            self._decided(accepted=False, notices=(notice,)), self.turn, attempt=0, unseen=()
        )
        self.rounds += 1

    def _decided(self, **fields: Any) -> Decided:
        return Decided(
            iteration=self.rounds,
            claim=1,
            action="call_tool",
            started_at=AT,
            **fields,
        )

    def _effect(self, tool: str, params: dict[str, Any], call_id: str) -> tuple[Produced, ...]:
        status = f"tc:{self.turn}.{call_id}.result"
        if tool == "react.write":
            path = f"fi:{self.turn}.outputs/{params['path']}"
            self.files[path] = params["content"]
            return (self._block(status, json.dumps({"artifact_path": path, "status": "ok"})),)
        if tool == "react.read":
            rows = [
                {"path": path, **({} if path in self.files else {"missing": True})}
                for path in params["paths"]
            ]
            views = [
                self._block(f"tc:{self.turn}.{call_id}.view.{n}", self.files[path])
                for n, path in enumerate(path for path in params["paths"] if path in self.files)
            ]
            return (self._block(status, json.dumps({"paths": rows})), *views)
        if tool == "react.pull":
            rows = [{"logical_path": path, "physical_path": path[3:]} for path in params["paths"]]
            return (self._block(status, json.dumps({"requested": params["paths"], "pulled": rows})),)
        if tool == "exec_tools.execute_code_python":
            names = [row["filename"] for row in params["contract"]]
            body = Body(key="out/k", sha256="0" * 64, size_bytes=9, mime="text/csv")
            files = [Produced(path=f"fi:{self.turn}.{name}", body=body) for name in names]
            return (self._block(status, self.report), *files)
        return (self._block(status, "plan_id: plan:x"),)

    def _block(self, path: str, text: str) -> Produced:
        return Produced(path=path, text=text)

    def _inbound(self, kind: str, text: str, **fields: Any) -> Inbound:
        return Inbound(message_id="m1", event=kind, text=text, user="u", at=AT, **fields)


def report_of(log: str = "", *, error: str = "", message: str = "") -> str:
    """Return the report of a run that printed this and ended so."""
    request = ExecRequest(
        exec_id="tc_000000000000",
        lane=Lane(tenant="acme", project="docs", conversation="c"),
        turn=TURN,
        iteration=0,
        at=AT,
        n=1,
        code="pass",
        contract=(),
    )
    run = Run(error=error, message=message, program_log=log, log_bytes=len(log.encode()))
    return make_envelope(request, run, Verdicts()).report_text
