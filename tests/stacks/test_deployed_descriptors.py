"""The settings and secrets of a bundle are the same in a process and in functions with their template's environment."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from lambdas import act, close, decide, socket
from lambdas.edge import runtime as edge_runtime
from stepline import BaseWorkflow, Settings, in_memory
from stepline.adapters.aws.client import connect
from stepline.adapters.aws.secret import StoredSecrets
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bundle.descriptor_set import decode_payload, parse_descriptors
from stepline.bundle.parts import load_tools
from stepline.errors import InputError, ToolError
from stepline.model.batch import encode_batch
from stepline.model.entry import Closed
from stepline.model.ids import make_lane
from stepline.ports.descriptor import name_stage_secret
from stepline.settings import TABLE, env
from stepline.tools.mcp.server_row import McpServer, resolve_server
from stepline_cdk.descriptor import read_descriptors
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.support.aws import moto
from tests.support.generation import answered, called
from tests.support.mcp_peer import McpPeer

from .conftest import deployed_settings, deployed_variables, package_of, synthesise

SECRET = "hunter2-hunter2"
PLAIN = {
    "assembly": "crm: {url: 'https://crm.example'}\n",
    "bundles": "bundles: {default_bundle_id: crm, items: [{id: crm, config: {unit: km}}, {id: guide, config: {unit: mi}}]}\n",
}
SECRETS = {
    "secrets": f"search: {{api_key: {SECRET}-of-search}}\n",
    "bundles.secrets": f"bundles: {{items: [{{id: crm, secrets: {{token: {SECRET}}}}}, {{id: guide, secrets: {{token: {SECRET}-of-guide}}}}]}}\n",
}
STORED = {
    "": f'{{"search": {{"api_key": "{SECRET}-of-search"}}}}',
    "default": f'{{"token": "{SECRET}"}}',
    "guide": f'{{"token": "{SECRET}-of-guide"}}',
}
SERVER = {"url": "", "auth": {"type": "bearer", "secret": "b:token"}}
FIND = {
    "name": "find",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
}


class _Crm(BaseWorkflow):
    """Has a server."""

    tools_module = "deployed_crm.tools"


@pytest.fixture(scope="module")
def peer():
    def say(request, _):
        return {"content": [{"type": "text", "text": f"Since 1843, and {request.headers['Authorization']}"}]}

    with McpPeer(tools_list=lambda *_: {"tools": [FIND]}, tools_call=say) as server:
        yield server


def write(folder, texts):
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder)


@pytest.fixture(scope="module")
def choices(peer):
    return {
        "bundle": "deployed_crm",
        "bundle_props": {"mcp": {"services": {"mcpServers": {"main": {**SERVER, "url": peer.url}}}}},
        "assembly": {"ai": {"react": {"max_iterations": 7}}},
    }


@pytest.fixture(scope="module")
def stage(tmp_path_factory, choices):
    folder = write(tmp_path_factory.mktemp("descriptors"), PLAIN)
    return synthesise(
        tmp_path_factory,
        name="dev",
        descriptors_dir=folder,
        model_provider="bedrock",
        exec_mode="fargate",
        exec_image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1",
        **choices,
    )


@pytest.fixture
def bundle(monkeypatch):
    for name, content in {
        "deployed_crm": {"WORKFLOW": _Crm},
        "deployed_crm.tools": {"TOOLS": [], "MCP_TOOL_SPECS": [{"alias": "crm", "server_id": "main"}]},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    load_tools.cache_clear()
    yield
    load_tools.cache_clear()


@pytest.fixture
def account():
    with moto():
        for owner, text in STORED.items():
            connect("secretsmanager", read_timeout_s=1).create_secret(
                Name=name_stage_secret("dev", owner), SecretString=text
            )
        yield


def deployed(settings):
    """The app of a function, with the account's secrets in place of none."""
    app = in_memory(settings)
    secrets = StoredSecrets(settings.stage, app.ports.clock)
    return replace(app, ports=replace(app.ports, secrets=secrets))


@pytest.mark.parametrize("function", ["decide", "act", "close"])
def test_a_function_reads_the_settings_and_secrets_that_a_process_reads(
    stage, tmp_path, choices, function, account
):
    here = in_memory(Settings.from_env(env(descriptors_dir=write(tmp_path, PLAIN | SECRETS), **choices)))
    there = deployed(deployed_settings(stage, function))
    for path in ("crm.url", "b:unit", "gone"):
        assert there.descriptors.get_plain(path) == here.descriptors.get_plain(path), path
    assert there.descriptors.get_settings() == here.descriptors.get_settings() != {}
    for path in ("search.api_key", "b:token"):
        assert there.descriptors.get_secret(path) == here.descriptors.get_secret(path), path
    for app in (here, there):
        with pytest.raises(ToolError):
            app.descriptors.get_secret("b:gone")
    assert there.settings.bundle_props == here.settings.bundle_props
    assert there.settings.assembly == here.settings.assembly
    assert there.ports.policy.max_iterations == here.ports.policy.max_iterations == 7


def test_an_mcp_server_gets_the_bundles_secret(stage, account):
    app = deployed(deployed_settings(stage, "act"))
    row = McpServer(alias="crm", url="https://crm.example/mcp", headers={"X-Key": "${secret:b:token}"})
    assert resolve_server(row, app.descriptors, 1).address.headers == {"X-Key": SECRET}


def test_a_task_gets_the_settings_and_secrets_of_its_bundle_alone(stage, bundle, account):
    app = deployed(deployed_settings(stage, "act"))
    texts = decode_payload(app.agent.execution.descriptors())
    read = parse_descriptors(texts)
    assert (read.get_secret("b:token"), read.get_plain("b:unit")) == (SECRET, "km")
    assert read.get_secret("search.api_key") == f"{SECRET}-of-search"
    assert "of-guide" not in str(texts)
    assert SECRET not in repr(app.agent.execution)


@pytest.fixture
def runtime(stage, monkeypatch, capsys):
    """The functions with the environment of Act, whose package is the synthesised one."""
    monkeypatch.setattr(edge_runtime, "PACKAGE", package_of(stage, "act"))
    for name, text in deployed_variables(stage, "act").items():
        monkeypatch.setenv(name, text)
    yield LambdaRuntime(monkeypatch, capsys)
    edge_runtime.drop()


@pytest.mark.usefixtures("bundle", "account")
def test_a_turn_with_a_server_reveals_the_secret_to_the_server_alone(runtime, peer):
    app = replace(
        runtime.app, given=MemoryModelClient(called("mcp.crm.find", {"name": "Ada"}), answered("1843."))
    )
    runtime.use(replace(app, ports=replace(app.ports, secrets=StoredSecrets("dev", app.ports.clock))))
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    handlers = {"decide": decide.handler, "act": act.handler, "close": close.handler}
    state, event = "decide", recorded("step")
    while state in handlers:
        step = runtime.call(handlers[state], event)
        event, state = {"step": step, "attempt": 0}, "decide" if state == "act" else step["route"]
        assert SECRET not in str(step)
    lane = make_lane("acme", "support", "c-1")
    batches = runtime.app.ports.log.since(lane, 0)
    (closed,) = [entry for batch in batches for entry in batch.entries if isinstance(entry, Closed)]
    assert closed.outcome == "completed"
    assert {headers["Authorization"] for headers, _ in peer.heard} == {f"Bearer {SECRET}"}
    stored = [*map(encode_batch, batches), *runtime.app.ports.artifacts.objects.values()]
    assert not [body for body in stored if SECRET.encode() in body]
    assert SECRET not in runtime.text


def test_no_secret_is_in_a_template_or_a_package(stage):
    files = [
        path for path in Path(stage.folder).rglob("*") if path.is_file() and path.suffix in (".yaml", ".json")
    ]
    assert any(path.name == "bundles.yaml" for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", ["secrets", "bundles.secrets"])
def test_a_folder_with_secrets_is_refused_with_the_command_that_sets_them(tmp_path, name):
    write(tmp_path, {**PLAIN, name: SECRETS[name]})
    with pytest.raises(InputError) as refused:
        read_descriptors(tmp_path, "prod")
    assert refused.value.reason == "descriptor_secret"
    assert f"{name}.yaml holds secrets" in str(refused.value)
    assert "`stepline secrets set NAME --stage prod`" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("body", [b"\xff", b"- a", b"a: 1\na: 2"])
def test_a_descriptor_that_no_function_could_read_is_refused_before_it_is_deployed(tmp_path, body):
    (tmp_path / "assembly.yaml").write_bytes(body)
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(InputError) as refused:
            read_descriptors(folder, "prod")
        assert refused.value.reason == "bad_descriptor"


def test_a_function_looks_for_its_files_next_to_its_handlers(stage):
    assert (package_of(stage, "act") / "lambdas/act.py").is_file()
    assert (edge_runtime.PACKAGE / "lambdas/act.py").samefile(act.__file__)


def test_only_functions_with_the_bundles_code_get_the_descriptors(stage):
    variable = TABLE["descriptors_dir"].variable
    given = {name: deployed_variables(stage, name).get(variable) for name in stage.functions}
    assert {name for name, text in given.items() if text} == {"decide", "act", "serve", "close"}
