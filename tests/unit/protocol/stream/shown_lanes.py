"""Generations, and what the listeners see of them: the parser and the show, fed in pieces of any size."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from stepline.model.ids import call_id
from stepline.model.source import Citation
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel_parser import ChannelParser
from stepline.protocol.stream.lane import AbortReason, LaneClosed, LaneEvent, LaneFacts, LaneOpened, LanePiece
from stepline.protocol.stream.show import Show
from stepline.tools.catalogue import default_registry
from stepline.tools.spec import ToolSpec
from tests.support.generation import DECISION, tagged

TURN = "turn_20260101T000000_abcdef"
PROGRAM = "exec_tools.execute_code_python"
SIZES = (1, 2, 7, 13, 64, 1_000_000)
SOURCES = {
    1: Citation(sid=1, title="One", url="https://example.com/1"),
    3: Citation(sid=3, title="Three", url="https://example.com/3"),
}
FANOUT = FanoutRule(mode="safe_fanout")


def _tools() -> dict[str, ToolSpec]:
    facts: dict[str, Any] = {"schema": {"type": "object"}, "effect": "keyed", "strategies": ("exploitation",)}
    others = [
        ToolSpec(tool_id=name, purpose="p", returns="r", read_only=False, **facts)
        for name in ("rendering_tools.write_pdf", "react.patch")
    ]
    return {spec.tool_id: spec for spec in (*default_registry(executes=True).specs, *others)}


TOOLS = _tools()


def rules(**fields: Any) -> RoundRules:
    """Return the rules of a round; several actions unless it says otherwise."""
    allowed = [spec.tool_id for spec in TOOLS.values() if spec.in_react]
    known: dict[str, Any] = {
        "tools": TOOLS,
        "allowed": allowed,
        "call_id": lambda index: call_id(TURN, 2, index),
        "turn": TURN,
        "iteration": 2,
        "fanout": FANOUT,
    }
    return RoundRules(**{**known, **fields})


def thinking(text: str) -> str:
    return tagged("thinking", text) + "\n"


def raw(body: str) -> str:
    return tagged(DECISION, body) + "\n"


def decision(**fields: Any) -> str:
    return raw(json.dumps(fields, ensure_ascii=False))


def call(tool_id: str, *, notes: str = "", **params: Any) -> str:
    return decision(action="call_tool", notes=notes, tool_call={"tool_id": tool_id, "params": params})


def write(path: str, content: str, *, notes: str = "", channel: str = "canvas") -> str:
    return call("react.write", notes=notes, path=path, channel=channel, content=content)


def run(notes: str = "", **params: Any) -> str:
    contract = [{"filename": "outputs/a.csv", "description": "rows"}]
    return call(PROGRAM, notes=notes, **{"contract": contract, "prog_name": "Sums", **params})


def code(text: str) -> str:
    return tagged("code", text) + "\n"


def answer(text: str, **fields: Any) -> str:
    return decision(action="complete", final_answer=text, **fields)


@dataclass
class Shown:
    """What a generation showed, lane by lane in the order in which they opened."""

    events: list[LaneEvent] = field(default_factory=list)
    cut: str = ""
    answer: str = ""

    @property
    def facts(self) -> dict[str, LaneFacts]:
        return {event.lane: event.facts for event in self.events if isinstance(event, LaneOpened)}

    @property
    def texts(self) -> dict[str, str]:
        found = dict.fromkeys(self.facts, "")
        for event in self.events:
            if isinstance(event, LanePiece):
                found[event.lane] += event.text
        return found

    @property
    def ends(self) -> dict[str, AbortReason]:
        return {event.lane: event.aborted for event in self.events if isinstance(event, LaneClosed)}

    @property
    def summary(self) -> list[tuple[str, LaneFacts, str, AbortReason]]:
        """Everything that a listener can observe, except for the cuts of the pieces."""
        return [(lane, facts, self.texts[lane], self.ends[lane]) for lane, facts in self.facts.items()]

    def check(self) -> None:
        """Assert what holds of everything that is shown."""
        open_lanes: dict[str, int] = {}
        seen: set[str] = set()
        for event in self.events:
            match event:
                case LaneOpened():
                    assert event.lane not in seen
                    assert event.facts.replaces in ({""} | seen)
                    seen.add(event.lane)
                    open_lanes[event.lane] = 0
                case LanePiece():
                    assert event.text
                    open_lanes[event.lane] += len(event.text)
                case LaneClosed():
                    assert open_lanes.pop(event.lane) == event.chars > 0
        assert not open_lanes


def show(
    text: str, size: int = 7, *, cuts: list[int] | None = None, reason: AbortReason = "", **fields: Any
) -> Shown:
    """Show a generation that comes in pieces of `size`, or cut at these places, and then ends, or is ended for `reason`.

    Nothing is read after a cut, as for a real listener.
    """
    places = range(0, len(text), size) if cuts is None else sorted({0, *(c for c in cuts if c < len(text))})
    parser, shown = ChannelParser(), Shown()
    shower = Show(rules(**fields), shown.events.append)
    for start, end in pairwise([*places, len(text)]):
        shower.show(parser.feed(text[start:end]))
        if shower.cut:
            reason = "policy"
            break
    shower.show(parser.close(reason or "eof"))
    shower.close(reason)
    shown.cut, shown.answer = shower.cut, shower.answer
    shown.check()
    return shown


def show_so_far(text: str, size: int = 7, **fields: Any) -> Shown:
    """Show the beginning of a generation that goes on."""
    parser, shown = ChannelParser(), Shown()
    shower = Show(rules(**fields), shown.events.append)
    for at in range(0, len(text), size):
        shower.show(parser.feed(text[at : at + size]))
    return shown


def show_alike(text: str, **fields: Any) -> Shown:
    """Show a generation at every size of `SIZES`, which must look the same."""
    shown = [show(text, size, **fields) for size in SIZES]
    for one in shown[1:]:
        assert one.summary == shown[0].summary
        assert (one.answer, one.cut) == (shown[0].answer, shown[0].cut)
    return shown[0]
