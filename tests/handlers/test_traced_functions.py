"""Traces of the functions, deployed except for the AWS adapters: a server that decodes them gets one per turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lambdas import act, close, decide, socket, sweeper
from stepline.model.ids import Lane, execution_name, person, root_span_id, trace_id
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.support.collector import Collector, collector
from tests.support.generation import answered, called

LANE = Lane(tenant="acme", project="support", conversation="c-1")
STATES: dict[str, Any] = {"decide": decide.handler, "act": act.handler, "close": close.handler}
WRITE = {"path": "a.md", "channel": "canvas", "content": "xfile", "kind": "file"}


@pytest.fixture
def heard() -> Iterator[Collector]:
    with collector() as made:
        yield made


def begin(runtime: LambdaRuntime, heard: Collector, tracing: str) -> str:
    """Open a turn on a stage with traces; return its id."""
    runtime.wire(
        STEPLINE_TRACING=tracing,
        OTEL_EXPORTER_OTLP_ENDPOINT=heard.url,
        OTEL_EXPORTER_OTLP_TIMEOUT="20000",
    )
    runtime.model.add(called("react.write", WRITE, notes="xnote"), answered("xanswer"))
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    turn: str = recorded("step")["step"]["turn"]
    return turn


def visit(runtime: LambdaRuntime, state: str, step: dict[str, Any]) -> dict[str, Any]:
    return runtime.call(STATES[state], {"step": step, "attempt": 0})


def lose(runtime: LambdaRuntime, step: dict[str, Any]) -> dict[str, Any]:
    """End the execution of a step, and report its end; return the first step of the next execution."""
    machine: Any = runtime.app.ports.machine
    machine.end(execution_name(LANE, step["epoch"]))
    event = recorded("execution_status")
    event["detail"]["input"] = json.dumps(step)
    assert runtime.call(sweeper.handler, event) == {"taken_over": 1}
    return {**step, "epoch": machine.queue[-1][1].epoch}


@pytest.mark.parametrize("tracing", ["on", "text"])
def test_functions_of_two_executions_leave_one_trace(
    runtime: LambdaRuntime, heard: Collector, tracing: str
) -> None:
    turn = begin(runtime, heard, tracing)
    step = visit(runtime, "act", visit(runtime, "decide", recorded("step")["step"]))
    step = visit(runtime, "close", visit(runtime, "decide", lose(runtime, step)))
    assert step["route"] == "done"
    assert {span.trace for span in heard.spans} == {f"{trace_id(LANE, turn):032x}"}
    (root,) = [span for span in heard.spans if not span.parent]
    assert (root.name, root.id) == ("invoke_agent default", f"{root_span_id(LANE, turn):016x}")
    steps = [span for span in heard.spans if span.parent == root.id]
    assert [span.name for span in steps] == ["decide", "act", "take_over", "decide", "close"]
    epochs = [span.attributes["stepline.epoch"] for span in steps]
    assert epochs[0] == epochs[1] < epochs[2] == epochs[3] == epochs[4]
    inner = {span.name.partition(" ")[0] for span in heard.spans if span.parent not in ("", root.id)}
    assert inner == {"chat", "execute_tool"}
    shown = repr(heard.spans)
    assert {text: text in shown for text in ("xfile", "xnote", "xanswer")} == dict.fromkeys(
        ("xfile", "xnote", "xanswer"), tracing == "text"
    )
    owner = runtime.app.ports.log.tail(LANE, consistent=True).state.owner
    assert root.attributes["user.hash"] == person(LANE.tenant, LANE.project, owner)
    assert owner not in [value for span in heard.spans for value in span.attributes.values()]


def test_a_turn_is_unchanged_if_the_server_refuses_its_spans(
    runtime: LambdaRuntime, heard: Collector
) -> None:
    heard.status = 500
    begin(runtime, heard, "on")
    step = visit(runtime, "act", visit(runtime, "decide", recorded("step")["step"]))
    step = visit(runtime, "close", visit(runtime, "decide", step))
    assert step["route"] == "done"
    assert len(heard.requests) == 1
    assert runtime.metrics()["SpansLost"] == 8
