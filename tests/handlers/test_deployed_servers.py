"""A bundle with an MCP server gives the same turn in process and in the functions, and its secret does not leak."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lambdas import act, close, decide, socket
from stepline import BaseWorkflow, InProcess, Lane, Settings, in_memory
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bundle.parts import load_tools
from stepline.model.batch import Batch, encode_batch
from stepline.model.entry import Closed, Listed, Resulted
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.support.conversation import text_of
from tests.support.generation import answered, called
from tests.support.mcp_peer import McpPeer

LANE = Lane(tenant="acme", project="support", conversation="c-1")
TEXT = "the user's secret question"
SECRET = "hunter2-hunter2"
SCRIPT = (called("mcp.crm.find", {"name": "Ada"}), answered("Since 1843."))
FIND = {
    "name": "find",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
DESCRIPTORS = {
    "bundles": """\
bundles:
  default_bundle_id: crm
  items: [{id: crm, config: {mcp: {services: {mcpServers: {main: {url: URL, auth: {type: bearer, secret: "b:token"}}}}}}}]
""",
    "bundles.secrets": f"bundles: {{items: [{{id: crm, secrets: {{token: {SECRET}}}}}]}}\n",
}


class Crm(BaseWorkflow):
    """Has a server."""

    tools_module = "served_crm.tools"


@pytest.fixture
def peer() -> Iterator[McpPeer]:
    def say(request: Any, _: Any) -> Any:
        return {"content": [{"type": "text", "text": f"Since 1843, and {request.headers['Authorization']}"}]}

    with McpPeer(tools_list=lambda *_: {"tools": [FIND]}, tools_call=say) as peer:
        yield peer


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: McpPeer) -> Iterator[dict[str, str]]:
    """Write the bundle to a folder of modules; return the variables that name it and its descriptors."""
    for name, content in {
        "served_crm": {"WORKFLOW": Crm},
        "served_crm.tools": {"TOOLS": [], "MCP_TOOL_SPECS": [{"alias": "crm", "server_id": "main"}]},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    for name, text in DESCRIPTORS.items():
        (tmp_path / f"{name}.yaml").write_text(text.replace("URL", f'"{peer.url}"'))
    load_tools.cache_clear()
    yield {"STEPLINE_BUNDLE": "served_crm", "PLATFORM_DESCRIPTORS_DIR": str(tmp_path)}
    load_tools.cache_clear()


def deployed(runtime: LambdaRuntime, settings: dict[str, str]) -> list[Batch]:
    runtime.model = MemoryModelClient(*SCRIPT)
    runtime.wire(**settings)
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    handlers = {"decide": decide.handler, "act": act.handler, "close": close.handler}
    state, event = "decide", recorded("step")
    while state in handlers:
        step = runtime.call(handlers[state], event)
        event = {"step": step, "attempt": 0}
        state = "decide" if state == "act" else step["route"]
    return runtime.app.ports.log.since(LANE, 0)


def in_process(settings: dict[str, str]) -> tuple[list[Batch], MemoryModelClient]:
    model = MemoryModelClient(*SCRIPT)
    app = in_memory(Settings.from_env(settings), model=model)
    workflow = Crm(InProcess(app), LANE, user="ada")
    asyncio.run(workflow.process({"text": TEXT, "message_id": "m1"}))
    return app.ports.log.since(LANE, 0), model


def entries(batches: list[Batch], kind: type[Any]) -> list[Any]:
    return [entry for batch in batches for entry in batch.entries if isinstance(entry, kind)]


def test_it_gives_the_same_log_in_a_process_and_in_the_functions(
    runtime: LambdaRuntime, settings: dict[str, str], peer: McpPeer
) -> None:
    here, model = in_process(settings)
    there = deployed(runtime, settings)
    assert len(entries(here, Listed)) == 1
    assert [(batch.entries, batch.state) for batch in there] == [
        (batch.entries, batch.state) for batch in here
    ]
    systems = [
        ["".join(part.text for part in one.system) for one in asked.requests]
        for asked in (model, runtime.model)
    ]
    assert systems[0] == systems[1]
    assert "## mcp.crm.find" in systems[0][0]
    assert "Since 1843, and Bearer [secret]" in text_of(model.requests[-1])
    assert {headers["Authorization"] for headers, _ in peer.heard} == {f"Bearer {SECRET}"}


def test_the_secret_is_in_no_log_no_object_and_no_request(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    batches = deployed(runtime, settings)
    (result,), (closed,) = entries(batches, Resulted), entries(batches, Closed)
    assert (result.status, closed.outcome) == ("ok", "completed")
    artifacts: Any = runtime.app.ports.artifacts
    bodies = [*map(encode_batch, batches), *artifacts.objects.values()]
    assert not any(SECRET.encode() in body for body in bodies)
    assert not any(SECRET in text_of(one) for one in runtime.model.requests)
    assert SECRET not in runtime.text
