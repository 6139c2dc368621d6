"""Rounds of the recorded conversations, where a round may take several actions, beside one action a round.

A recording is one request of each kind that the scripted model knows, run through the loop over the memory
twins, after the same two turns. The model asks for several actions wherever its instructions allow them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bench.row import MeasureError, Row
from stepline.loop.agent import Agent
from stepline.model.entry import Decided
from stepline.tools.registry import Registry
from tests.support.script import RECORDED
from tests.unit.local.scripted.scripted_conversation import ScriptedConversation

BEFORE: Final = (
    "Write a file note.md with grey herons.",
    "Write a CSV of sales over two months to sales.csv.",
)
MODE: Final = "AI_REACT_AGENT_MULTI_ACTION"


def rows() -> list[Row]:
    """Return `rounds_of_recorded`."""
    one, several, listed = (count_rounds(mode) for mode in ("off", "safe_fanout", "read_write_search"))
    by_kind = count_rounds("safe_fanout", by_kind=True)
    fewer = [said for said, a, b in zip(RECORDED, one, several, strict=True) if b < a]
    return [
        Row(
            metric="rounds_of_recorded",
            value=round(sum(several) / sum(one), 3),
            unit="x",
            peers={
                "one action a round": 1.0,
                "safe_fanout by kind alone": round(sum(by_kind) / sum(one), 3),
                "read_write_search": round(sum(listed) / sum(one), 3),
            },
            goal=round(sum(by_kind) / sum(one), 3),
            note=f"{sum(one) - sum(several)} of {sum(one)} rounds are saved, in {len(fewer)} of {len(one)} conversations; "
            f"by kind alone {sum(one) - sum(by_kind)}, by name {sum(one) - sum(listed)}",
        )
    ]


def count_rounds(mode: str, *, by_kind: bool = False) -> list[int]:
    """Return the rounds of each recording; `by_kind`: as if no tool said what it reads."""
    return [_play(said, mode, by_kind=by_kind) for said in RECORDED]


def _play(request: str, mode: str, *, by_kind: bool) -> int:
    chat = ScriptedConversation(*BEFORE, **{MODE: mode})
    if by_kind:
        chat.agent = _silent(chat.agent)
    known = len(chat.entries(Decided))
    chat.say(request)
    if set(chat.statuses()) - {"ok"}:
        raise MeasureError(f"an action failed: {request}")
    return len(chat.entries(Decided)) - known


def _silent(agent: Agent) -> Agent:
    tools = [agent.registry.find(spec.tool_id) for spec in agent.registry.specs]
    return replace(
        agent,
        registry=Registry([replace(tool, spec=replace(tool.spec, reads="conversation")) for tool in tools]),
    )
