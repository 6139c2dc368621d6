from typing import Any

import pytest

from lambdas import act, close, decide, socket
from stepline.adapters.memory.model import Fail
from stepline.adapters.memory.tenancy.accounts import MemoryCosts
from stepline.errors import DependencyError, ModelTimeout
from stepline.model.ids import Lane
from stepline.model.tenancy.consumption import Consumption, count_unreported
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.support.generation import answered, called

LANE = Lane(tenant="acme", project="support", conversation="c-1")
STATES: dict[str, Any] = {"decide": decide.handler, "act": act.handler, "close": close.handler}
WRITE = {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"}


def opened(runtime: LambdaRuntime, *script: str | Fail) -> dict[str, Any]:
    runtime.model.add(*script)
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    event: dict[str, Any] = recorded("step")
    return event


def rows(runtime: LambdaRuntime) -> list[tuple[str, int, int, str, int]]:
    found = runtime.app.ports.costs.of(LANE)
    return [(row.function, row.visit, row.attempt, row.route, row.used.transitions) for row in found]


def test_every_invocation_of_a_turn_stores_one_cost_row(runtime: LambdaRuntime) -> None:
    event = opened(runtime, called("react.write", WRITE), answered("done"))
    turn, state = event["step"]["turn"], "decide"
    while state in STATES:
        step = runtime.call(STATES[state], event)
        event, state = {"step": step, "attempt": 0}, "decide" if state == "act" else step["route"]
    found = runtime.app.ports.costs.of(LANE)
    assert sorted(rows(runtime)) == sorted(
        [
            ("socket", 0, 0, "", 0),
            ("decide", 0, 0, "act", 2),
            ("act", 1, 0, "decide", 1),
            ("decide", 2, 0, "close", 2),
            ("close", 3, 0, "done", 3),
        ]
    )
    assert {row.turn for row in found} == {turn}
    assert all(row.used.invocations == 1 and row.used.mb_ms == 256 * row.used.function_ms for row in found)
    assert count_unreported(found, epochs=[1]) == 0


def test_an_invocation_without_a_conversation_stores_no_cost_row(runtime: LambdaRuntime) -> None:
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("disconnect"))
    assert not rows(runtime)


def test_a_handler_that_fails_stores_its_cost_row_too(runtime: LambdaRuntime) -> None:
    event = opened(runtime, *[Fail(error=ModelTimeout("busy"))] * 3)
    with pytest.raises(ModelTimeout):
        runtime.call(decide.handler, event)
    assert ("decide", 0, 0, "", 1) in rows(runtime)


def test_an_invocation_keeps_no_state_of_the_previous_one(runtime: LambdaRuntime) -> None:
    event = opened(runtime, answered("done"))
    runtime.app.ports.ledger.count("searches", 3)
    runtime.call(decide.handler, event)
    (row,) = (row for row in runtime.app.ports.costs.of(LANE) if row.function == "decide")
    assert row.used.searches == 0


def test_a_state_that_catches_a_failed_state_records_its_attempts(
    runtime: LambdaRuntime,
) -> None:
    event = opened(runtime)
    step = {**event["step"], "error": {"Error": "Sandbox.Timedout", "Cause": "task timed out"}}
    runtime.call(close.handler, {"step": step, "attempt": 0})
    found = runtime.app.ports.costs.of(LANE)
    assert [row.lost for row in found if row.function == "close"] == [3]
    assert count_unreported(found, epochs=[1]) == 3


def test_a_cost_row_that_cannot_be_stored_is_counted_and_fails_no_call(
    runtime: LambdaRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise DependencyError("not now")

    event = opened(runtime, answered("done"))
    runtime.metrics()
    monkeypatch.setattr(MemoryCosts, "put", refuse)
    assert runtime.call(decide.handler, event)["route"] == "close"
    assert runtime.metrics()["CostsUnrecorded"] == 1


def test_the_cost_of_a_turn_is_counted_by_tenant(runtime: LambdaRuntime) -> None:
    runtime.call(decide.handler, opened(runtime, answered("done")))
    counted = runtime.metrics()
    assert counted["AwsUsd"] > 0
    assert "ModelUsd" in counted


def test_the_row_of_the_edge_names_no_field_that_a_consumption_lacks(runtime: LambdaRuntime) -> None:
    ledger = runtime.app.ports.ledger
    for name in Consumption.__struct_fields__:
        ledger.count(name)
    assert ledger.consumption().searches == 1
