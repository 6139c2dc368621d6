"""Decisions and calls as the model of the explorer makes them."""

from __future__ import annotations

from typing import Final

from stepline.model.decision import Action
from stepline.model.entry import Decided
from stepline.model.step import Step

PROGRAM: Final = "exec_tools.execute_code_python"


def cut_off(step: Step, at: str, shown: str) -> Decided:
    return Decided(
        iteration=step.iteration,
        claim=0,
        action="exit",
        started_at=at,
        accepted=False,
        raw=shown,
        answer=shown,
        interrupted=True,
    )


def at_once(step: Step, claim: int, at: str, answer: str) -> Decided:
    return Decided(iteration=step.iteration, claim=claim, action="complete", started_at=at, answer=answer)


def new_action(call: str, tool: str) -> Action:
    if tool != PROGRAM:
        return Action(call_id=call, tool_id=tool, params={})
    params = {"contract": [{"filename": f"{call}.txt", "description": "what it wrote"}]}
    return Action(call_id=call, tool_id=tool, params=params, code="print('hello')")
