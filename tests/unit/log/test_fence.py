"""Steps that a fence returns."""

from __future__ import annotations

from msgspec.structs import replace

from stepline.log.fence import ended
from stepline.model.step import Step


def test_the_last_step_of_an_execution_carries_no_earlier_work() -> None:
    step = Step(tenant="acme", project="p", conversation="c", turn="turn_0001", epoch=2, iteration=3)
    worked = replace(step, route="wait", attempt=1, error={"Error": "x"}, wait_s=7, due_ms=9)
    assert ended(worked, "stop") == replace(step, route="stop")
