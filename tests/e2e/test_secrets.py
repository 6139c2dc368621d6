"""A bundle with settings, a secret and an MCP server with auth answers on the stage as in a process."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import subprocess
import sys

import pytest

from stepline import InProcess, Lane, Settings, in_memory
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bundle.parts import load_tools
from stepline.local.stage.deployed import client, install_environment
from tests.e2e.stage import STEPLINE, Stage, a_word, answer_of
from tests.support.generation import answered, called
from tests.support.mcp_peer import McpPeer

pytestmark = pytest.mark.emulator

SECRET = "hunter2-hunter2"
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()[:12]
TOOLS = """
import hashlib

from stepline import Tool, ToolOutput, ToolSpec

SHOW = ToolSpec(
    tool_id="vault.show",
    purpose="Show the settings.",
    schema={"type": "object", "additionalProperties": False, "properties": {}},
    returns="the settings",
    effect="pure",
    read_only=True,
)


def run_show(params, context):
    token = context.secrets.get_secret("b:token")
    facts = {
        "status": "ok",
        "url": context.settings.get_plain("crm.url"),
        "unit": context.settings.get_plain("b:unit"),
        "settings": sorted(context.settings.get_settings()),
        "token": hashlib.sha256(token.encode()).hexdigest()[:12],
    }
    return ToolOutput(blocks=(context.result(SHOW.tool_id, facts),))


TOOLS = (Tool(spec=SHOW, run=run_show),)
MCP_TOOL_SPECS = [{"alias": "crm", "server_id": "main"}]
"""
BUNDLE = """
from stepline import BaseWorkflow


class Vault(BaseWorkflow):
    tools_module = "vault.tools"


WORKFLOW = Vault
"""
DESCRIPTORS = {
    "assembly": "crm: {url: 'https://crm.example'}\n",
    "bundles": "bundles: {default_bundle_id: vault, items: [{id: vault, config: {unit: leagues}}]}\n",
    "bundles.secrets": f"bundles: {{items: [{{id: vault, secrets: {{token: {SECRET}}}}}]}}\n",
}
FIND = {
    "name": "find",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}
SCRIPT = (called("vault.show", {}), called("mcp.crm.find", {"name": "Ada"}), answered("Since 1843."))


@pytest.fixture(scope="module")
def peer():
    def say(request, _):
        return {"content": [{"type": "text", "text": f"Since 1843, and {request.headers['Authorization']}"}]}

    with McpPeer(tools_list=lambda *_: {"tools": [FIND]}, tools_call=say) as server:
        yield server


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with the bundle, and its descriptors."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "vault").mkdir()
    (folder / "vault/__init__.py").write_text(BUNDLE)
    (folder / "vault/tools.py").write_text(TOOLS)
    (folder / "descriptors").mkdir()
    for name, text in DESCRIPTORS.items():
        (folder / f"descriptors/{name}.yaml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def variables(project, peer):
    server = {"url": peer.url, "auth": {"type": "bearer", "secret": "b:token"}}
    props = {"mcp": {"services": {"mcpServers": {"main": server}}}, "note": "x" * 2000}
    return {
        "PLATFORM_DESCRIPTORS_DIR": str(project / "descriptors"),
        "STEPLINE_BUNDLE_PROPS": json.dumps(props),
        "STEPLINE_BUNDLE": "vault",
    }


@pytest.fixture(scope="module")
def vault(deployed, project, variables):
    """The stage with that bundle; the default one answers again after the tests."""
    stage = Stage(deployed)
    stage.command("up", env=variables, cwd=project)
    yield stage
    stage.command("up", cwd=project)


@pytest.fixture
def here(project, variables, monkeypatch):
    """What the model reads of the results when the bundle runs in this process."""
    monkeypatch.syspath_prepend(str(project))
    load_tools.cache_clear()
    model = MemoryModelClient(*SCRIPT)
    app = in_memory(Settings.from_env(variables), model=model)
    lane = Lane(tenant="local", project="default", conversation="c-1")
    workflow = importlib.import_module("vault").Vault(InProcess(app), lane, user="ada")
    asyncio.run(workflow.process({"text": "What is set?", "message_id": "m1"}))
    yield str(model.requests[-1])
    load_tools.cache_clear()
    for name in ("vault", "vault.tools"):
        sys.modules.pop(name, None)


def facts_in(text):
    """The words of the settings, of the secret's digest and of the server's answer that a request has."""
    words = ("https://crm.example", "leagues", DIGEST, "Since 1843, and Bearer [secret]")
    return [word for word in words if word in text]


@pytest.mark.usefixtures("deployed_script")
def test_the_stage_answers_as_a_process_does(vault, here, conversation):
    word = a_word()
    for text in SCRIPT:
        vault.fault(kind="fixture", match=word, text=text)
    assert answer_of(vault.send(f"What is set? {word}", conversation)) == "Since 1843."
    there = json.dumps([request["body"] for request in vault.model_requests(word)])
    assert len(facts_in(here)) == 4
    assert facts_in(there) == facts_in(here)
    for text in (here, there):
        assert SECRET not in text


def test_the_secret_is_set_by_a_command_and_in_no_variable_of_a_function(vault, deployed, project, peer):
    listed = vault.command("secrets", "list", "--json").stdout
    assert {(row["bundle"], row["name"]) for row in map(json.loads, listed.splitlines())} >= {
        ("default", "token")
    }
    done = subprocess.run(
        [STEPLINE, "secrets", "set", "crm.other"],
        input=f"{SECRET}\n",
        env=install_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert SECRET not in done.stdout + done.stderr
    assert " crm.other " in vault.command("secrets", "list").stdout
    vault.command("secrets", "remove", "crm.other")
    functions = client("lambda", deployed).list_functions()["Functions"]
    variables = {one["FunctionName"]: one["Environment"]["Variables"] for one in functions}
    assert variables["stepline-local-act"]["STEPLINE_BUNDLE_PROPS"].startswith("@settings/bundle_props-")
    assert SECRET not in str(variables)
    assert {headers["Authorization"] for headers, _ in peer.heard} == {f"Bearer {SECRET}"}
