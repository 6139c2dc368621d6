"""The name and the row of an attempt at a state in a receipt."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.loop.graph import REMOTE
from stepline.loop.tenancy.state_visit import StateVisit
from stepline.model.step import Step


def visit(function: str, *, token: bool = False, **fields: Any) -> StateVisit:
    step = Step(tenant="acme", project="p", conversation="c", turn="turn_0001", epoch=2, visit=5, **fields)
    return StateVisit(function, step, token)


@pytest.mark.parametrize(
    ("made", "prepares", "state"),
    [
        (visit("decide"), True, "Decide"),
        (visit("act", route="act"), True, "Act"),
        (visit("act", route="prepare"), True, "Prepare"),
        (visit("act", route="prepare"), False, "Act"),
        (visit("act", route="prepare", error={"Error": "x"}), True, "Act"),
        (visit("act", route="execute_task", token=True), True, REMOTE.name),
    ],
)
def test_a_state_is_named_like_its_function_but_for_those_of_programs(
    made: StateVisit, prepares: bool, state: str
) -> None:
    assert made.state(prepares=prepares) == state


def test_the_row_of_an_attempt_has_its_position_in_the_execution() -> None:
    assert visit("act", route="prepare", attempt=1).fields(prepares=True) == {
        "turn": "turn_0001",
        "function": "act",
        "epoch": 2,
        "visit": 5,
        "attempt": 1,
        "lost": 0,
    }
