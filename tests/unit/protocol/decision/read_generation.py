"""Generations as models write them, and the judge with a tool of every kind."""

import json
from dataclasses import dataclass
from typing import Any

from stepline.protocol.decision.call_check import Referred
from stepline.protocol.decision.fanout import FanoutRule, Reads, Strategy
from stepline.protocol.decision.read import RoundVerdict, read_decision
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel_parser import read_channels
from stepline.tools.execute_code import promised_files
from tests.support.generation import DECISION, tagged

EXEC = "exec_tools.execute_code_python"


@dataclass(frozen=True)
class Spec:
    """A contract: which parameters there are, and which must be there."""

    key_order: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    runs_code: bool = False
    strategies: tuple[Strategy, ...] = ("unknown",)
    documented: tuple[str, ...] = ()
    any_order: bool = False
    reads: Reads = "conversation"

    def outputs(self, params: Any) -> tuple[str, ...]:
        if self.runs_code:
            return promised_files(params)
        return (params["path"],) if "path" in params else ()

    def validate(self, params: Any, *, unbound: Any = ()) -> list[str]:
        unknown = [f"{key} is unknown" for key in params if key not in self.known]
        return unknown + [f"{key} is missing" for key in sorted(self.required) if key not in params]

    def misplaced(self, params: Any) -> list[str]:
        ordinals = ("first", "second", "third", "fourth")
        wanted = [key for key in self.key_order if key in params]
        return [
            f"{key}_not_{ordinals[self.key_order.index(key)]}"
            for key, found in zip(wanted, params, strict=False)
            if key != found
        ]


WRITE_KEYS = ("path", "channel", "content", "kind")
TOOLS = {
    "react.read": Spec(
        known=frozenset({"paths"}), required=frozenset({"paths"}), strategies=("exploration",)
    ),
    "react.write": Spec(
        WRITE_KEYS,
        frozenset({*WRITE_KEYS, "scratchpad"}),
        frozenset({"path", "content"}),
        strategies=("exploitation",),
        reads="parameters",
    ),
    "react.patch": Spec(
        ("path", "channel", "patch", "kind"),
        frozenset({"path", "channel", "patch", "kind"}),
        strategies=("exploitation",),
    ),
    "react.plan": Spec(known=frozenset({"steps"}), required=frozenset({"steps"}), strategies=("neutral",)),
    "ctx_tools.fetch_ctx": Spec(),
    EXEC: Spec(
        known=frozenset({"contract", "prog_name"}),
        documented=("contract", "prog_name"),
        runs_code=True,
        strategies=("exploration", "exploitation"),
    ),
    "rendering_tools.write_pdf": Spec(
        known=frozenset({"path", "content"}), required=frozenset({"path"}), strategies=("exploitation",)
    ),
    "web_tools.web_search": Spec(
        known=frozenset({"queries", "objective"}), strategies=("exploration",), reads="outside"
    ),
    "mcp.other": Spec(known=frozenset({"x"})),
}
ALLOWED = set(TOOLS) - {"ctx_tools.fetch_ctx"}
FANOUT = FanoutRule(mode="safe_fanout")
BY_NAME = FanoutRule(mode="read_write_search")

READ = {"tool_id": "react.read", "params": {"paths": ["ar:plan.latest"]}}
CONTRACT = [{"filename": "outputs/a.csv", "description": "the table"}]
RUN = {"tool_id": EXEC, "params": {"contract": CONTRACT}}


def anywhere(written: str) -> Referred:
    """Let every reference have a target."""
    return Referred(path=written)


def judge(
    text: str, *, stop_reason: str = "end_turn", streamed_answer: str = "", **rules: Any
) -> RoundVerdict:
    made: dict[str, Any] = {"tools": TOOLS, "allowed": ALLOWED, "call_id": "tc_{}".format, "turn": "turn_1"}
    made["refer"] = anywhere
    return read_decision(
        read_channels(text),
        RoundRules(**{**made, **rules}),
        stop_reason=stop_reason,
        streamed_answer=streamed_answer,
    )


def think(text: str = "Hm.") -> str:
    return tagged("thinking", text) + "\n"


def decide(decision: Any) -> str:
    body = decision if isinstance(decision, str) else json.dumps(decision)
    return tagged(DECISION, f"\n```json\n{body}\n```\n") + "\n"


def program(text: str) -> str:
    return tagged("code", text) + "\n"


def generation(*decisions: Any, code: str = "", summary: str = "", thinking: str = "Hm.") -> str:
    summary_channel = tagged("summary", summary) if summary else ""
    return "".join([think(thinking), *map(decide, decisions), program(code), summary_channel])


def call(tool_call: Any = READ, **fields: Any) -> dict[str, Any]:
    return {"action": "call_tool", "tool_call": tool_call, **fields}


def read(*paths: str, **fields: Any) -> dict[str, Any]:
    return call({"tool_id": "react.read", "params": {"paths": list(paths)}}, **fields)


def write(**params: Any) -> dict[str, Any]:
    return call({"tool_id": "react.write", "params": params})


def search(*queries: str, **params: Any) -> dict[str, Any]:
    return call({"tool_id": "web_tools.web_search", "params": {"queries": list(queries), **params}})


def plan(*steps: str, **fields: Any) -> dict[str, Any]:
    return call({"tool_id": "react.plan", "params": {"steps": list(steps)}}, **fields)


def run(**params: Any) -> dict[str, Any]:
    return call({"tool_id": EXEC, "params": params})


def complete(answer: str | None = "Done.", **fields: Any) -> dict[str, Any]:
    return {"action": "complete", "final_answer": answer, **fields}


def codes(verdict: RoundVerdict) -> list[str]:
    return [one.code for one in verdict.notices]


def ran(verdict: RoundVerdict) -> list[str]:
    return [action.tool_id for action in verdict.actions]
