"""Every backend of the Executor port has the declared calls of a program made by a function."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stepline.model.program.execution import ServedGrant
from tests.contract.executor_jobs import BACKENDS, MODEL_CALL, Bench


@pytest.fixture(scope="module", params=BACKENDS)
def bench(request) -> Iterator[Bench]:
    with BACKENDS[request.param]() as made:
        yield made


def test_a_function_makes_the_declared_calls_of_a_program(bench):
    bench.served.clear()
    served = ServedGrant(tools=("mcp.crm.add", "model_tools.ask"), ticket="t1cket", calls=2)
    run = bench.ran(
        """
        import os
        print(model_tools.ask(prompt="x", data=b"\\xff"))
        try:
            agent_io_tools.tool_call("mcp.crm.add", {"refuse": True})
        except agent_io_tools.ToolCallError as refused:
            print(refused.code)
        try:
            await agent_io_tools.tool_call(tool_id="mcp.crm.add", params={})
        except agent_io_tools.ToolCallError as refused:
            print(refused.code)
        try:
            agent_io_tools.tool_call("mcp.crm.delete", {})
        except agent_io_tools.ToolCallError as refused:
            print(refused.code, "mcp.crm.delete" in str(refused))
        print("t1cket" in str(os.environ))
        """,
        served=served,
    )
    said = run.program_log.splitlines()
    assert said == [
        "{'got': {'prompt': 'x', 'data': b'\\xff'}}",
        "mcp_tool_failed",
        "served_calls_exceeded",
        "tool_not_allowed True",
        "False",
    ]
    assert [(call.number, call.tool_id) for call in bench.served] == [
        (0, "model_tools.ask"),  # its answer was lost
        (0, "model_tools.ask"),
        (1, "mcp.crm.add"),
    ]
    assert {(call.ticket, call.exec_id) for call in bench.served} == {("t1cket", run_of(bench))}
    assert [(call.code, call.models) for call in run.calls] == [
        ("", (MODEL_CALL,)),
        ("mcp_tool_failed", ()),
        ("served_calls_exceeded", ()),
        ("tool_not_allowed", ()),
    ]
    assert [event.type for event in run.events] == ["served"]


def run_of(bench):
    return f"tc_{bench.runs:012x}"
