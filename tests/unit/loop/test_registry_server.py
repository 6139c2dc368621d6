"""A third-party server from a registry: listed, called in a turn, and its answer read by the model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from stepline.bootstrap.choice import servers_of
from stepline.bundle.assembly import build_agent
from stepline.bundle.parts import Parts
from stepline.model.entry import Closed, Listed, Resulted
from stepline.settings import Settings
from stepline.tools.context import ReadCaps
from tests.support.conversation import Conversation, text_of
from tests.support.generation import answered, called

MODULE = "bundle_with_a_clock"
CONVERT = {"source_timezone": "Europe/Vienna", "time": "12:00", "target_timezone": "Asia/Tokyo"}


@pytest.fixture(autouse=True)
def _bundle() -> Iterator[None]:
    module: Any = ModuleType(MODULE)
    module.TOOLS = ()
    module.MCP_TOOL_SPECS = [
        {
            "alias": "clock",
            "command": sys.executable,
            "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"],
        }
    ]
    sys.modules[MODULE] = module
    yield
    del sys.modules[MODULE]


def conversation(*script: str) -> Conversation:
    made = Conversation(*script)
    made.ports = replace(made.ports, servers=servers_of(Settings.from_env({})))
    made.agent = build_agent(ReadCaps(), parts=Parts(tools_module=MODULE))
    return made


def test_a_third_party_server_is_listed_and_called_in_a_turn() -> None:
    made = conversation(called("mcp.clock.convert_time", CONVERT), answered("It is evening there."))
    made.send("12:00 in Vienna: how late is it in Tokyo?")
    made.run()
    (listed,), (result,), (closed,) = made.entries(Listed), made.entries(Resulted), made.entries(Closed)
    assert (listed.failed, listed.tools >= 2) == ((), True)
    assert (result.tool_id, result.status) == ("mcp.clock.convert_time", "ok")
    (status,) = result.blocks  # the server returns it twice, as text and as structured content
    assert json.loads(status.text)["structured"]["target"]["timezone"] == "Asia/Tokyo"
    assert "Asia/Tokyo" in text_of(made.model.requests[1])
    assert closed.outcome == "completed"


def test_a_call_that_its_schema_forbids_is_refused_before_the_server_is_asked() -> None:
    made = conversation(called("mcp.clock.convert_time", {"time": 12}), answered("I cannot."))
    made.send("12:00 in Vienna: how late is it in Tokyo?")
    made.run()
    assert made.entries(Resulted) == []
    assert "source_timezone" in text_of(made.model.requests[1])


def test_a_call_that_the_server_cannot_take_is_an_error_that_the_model_reads() -> None:
    wrong = {**CONVERT, "target_timezone": "Nowhere/None"}
    made = conversation(called("mcp.clock.convert_time", wrong), answered("There is no such place."))
    made.send("12:00 in Vienna: how late is it in Nowhere?")
    made.run()
    (result,) = made.entries(Resulted)
    assert result.error["code"] in ("mcp_tool_failed", "mcp_call_refused")
    assert made.entries(Closed)[0].outcome == "completed"
