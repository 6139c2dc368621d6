"""Services of a deployment for a tool that the model calls in a round: settings, secrets, and the model."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from stepline import search_memory
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bootstrap.program_backend import ProgramBackends
from stepline.bundle.parts import Parts
from stepline.errors import PathError, ToolError
from stepline.model.batch import encode_batch
from stepline.model.block import Body
from stepline.model.entry import Closed, Decided, Resulted
from stepline.model.program.execution import ExecRequest, Run, ToolCallRecord
from stepline.model.program.handover import ObjectGrant
from stepline.model.usage import ModelCall, Usage
from stepline.ports.executor import Job
from stepline.ports.model import ModelRequest, Part
from stepline.settings import Settings
from stepline.tools.context import ToolOutput
from stepline.tools.registry import Registry
from stepline.tools.write import WRITE_TOOL
from tests.support.conversation import LANE, Conversation, tool
from tests.support.generation import answered, called, coded

SECRET = "hunter2-never-seen"
TEXTS = {
    "assembly.yaml": "crm: {url: 'https://crm.example'}\n",
    "bundles.yaml": "bundles: {default_bundle_id: shop, items: [{id: shop, config: {unit: km}}]}\n",
    "secrets.yaml": f"crm: {{token: {SECRET}}}\n",
}
CALL = "shop.crm"


@pytest.fixture
def folder(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path)


def app_of(read, *, folder="", model=None):
    """Return an app whose agent has one tool; its result is what `read` finds in its context."""

    def run(context):
        found = read(context)
        return ToolOutput(blocks=(context.result(CALL, {"found": found}),), ret=found)

    app = in_memory(Settings.from_env({"PLATFORM_DESCRIPTORS_DIR": folder}), model=model)
    agent = replace(app.build_agent(Parts()), registry=Registry([tool(CALL, "pure", run, in_exec=True)]))
    return replace(app, made=agent)


def call(app):
    """Return the conversation in which the model has called that tool, and answered."""
    conversation = Conversation(called(CALL, {}), answered("Done."))
    conversation.agent = app.agent
    conversation.send("ask the crm")
    conversation.run()
    return conversation


def found(conversation):
    (end,) = conversation.entries(Resulted)
    return end.error or msgspec.json.decode(end.blocks[0].text)["found"]


def ask(context):
    request = ModelRequest(role="*", system=(), content=(Part(text="2 + 2?"),), max_tokens=10)
    with context.model.stream(request) as running:
        return "".join(running)


def job_of(artifacts):
    """Return a program that may call the tool."""
    request = ExecRequest(
        exec_id="e1", lane=LANE, turn="", iteration=0, at="", n=0, code="", contract=(), tools=(CALL,)
    )
    return Job(request=request, batches=(), fetch=artifacts.get, spool=Path())


def call_in_program(app):
    """Return the tool's result when a program calls it."""
    return ProgramBackends(app).tool_host(job_of(app.ports.artifacts)).call(CALL, {})


@pytest.mark.parametrize("path", ["crm.url", "b:unit"])
def test_a_tool_of_a_round_reads_the_same_settings_as_one_of_a_program(folder, path):
    app = app_of(lambda context: context.settings.get_plain(path), folder=folder)
    assert (
        found(call(app)) == call_in_program(app) == {"crm.url": "https://crm.example", "b:unit": "km"}[path]
    )


def test_a_tool_of_a_round_asks_the_model_as_one_of_a_program_does():
    app = app_of(ask, model=MemoryModelClient("4", "4"))
    assert found(call(app)) == call_in_program(app) == "4"


def test_model_calls_of_a_programs_tool_are_recorded_with_its_call():
    model = MemoryModelClient("4")
    host = ProgramBackends(app_of(ask, model=model)).tool_host(job_of(MemoryArtifacts()))
    assert host.call(CALL, {}) == "4"
    (call,) = host.calls
    assert call.status == "ok"
    assert call.usage.output_tokens > 0


def test_model_calls_of_a_programs_tools_are_charged_to_the_turn():
    used = Usage(input_tokens=7, output_tokens=5)
    calls = [
        ToolCallRecord(
            tool_id=CALL,
            params={},
            status="ok",
            at="",
            usage=used,
            models=(ModelCall(role="r", model="m", usage=used, id=call),),
        )
        for call in ("a", "b")
    ]
    conversation = Conversation(coded("print(1)", "a.csv"), answered("Done."))
    conversation.programs(lambda _: Run(returncode=0, calls=tuple(calls)))
    conversation.send()
    conversation.run()
    (end,), (closed,) = conversation.entries(Resulted), conversation.entries(Closed)
    decided = sum(entry.cost.output_tokens for entry in conversation.entries(Decided))
    assert end.usage.output_tokens == 10
    assert closed.usage.output_tokens == conversation.state.output_tokens == decided + 10


def test_a_tool_gets_the_address_of_a_file_of_its_conversation_and_of_no_other():
    seen = {}

    def host(context):
        seen["url"] = context.artifact_url(f"fi:{context.turn}.outputs/a.md", ttl_s=60)
        with pytest.raises(ToolError) as caught:
            context.artifact_url(f"fi:{context.turn}.outputs/b.md")
        seen["code"] = caught.value.reason
        with pytest.raises(PathError):
            context.artifact_url("fi:../../a.md")

    write = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}
    app = app_of(host)
    conversation = Conversation(called("react.write", write), called(CALL, {}), answered("Done."))
    conversation.agent = replace(app.agent, registry=Registry([WRITE_TOOL, app.agent.registry.find(CALL)]))
    conversation.send()
    conversation.run()
    data, form = conversation.ports.grants.fetch(ObjectGrant(url=seen["url"]))
    assert (data, form.disposition.partition(";")[0]) == (b"# A", "attachment")
    assert seen["code"] == "not_found"


def test_an_internal_file_has_no_address():
    seen = []

    def host(context):
        with pytest.raises(ToolError) as caught:
            context.artifact_url(f"fi:{context.turn}.outputs/a.md")
        seen.append(caught.value.reason)

    write = {"path": "outputs/a.md", "channel": "internal", "content": "# A", "kind": "file"}
    app = app_of(host)
    conversation = Conversation(called("react.write", write), called(CALL, {}), answered("Done."))
    conversation.agent = replace(app.agent, registry=Registry([WRITE_TOOL, app.agent.registry.find(CALL)]))
    conversation.send()
    conversation.run()
    assert seen == ["not_found"]


def test_the_address_of_a_file_lives_no_longer_than_a_signature_may():
    until = []
    app = app_of(lambda context: until.append(context.artifact_url(Body("out/x", "", 1), ttl_s=10**9)))
    conversation = call(app)
    now = int(conversation.clock.now().timestamp())
    assert [parse_qs(urlsplit(url).query)["until"] for url in until] == [[str(now + 7 * 86_400)]]


def test_files_have_no_addresses_for_a_tool_of_a_program():
    with pytest.raises(ToolError) as caught:
        call_in_program(app_of(lambda context: context.artifact_url(Body("out/x", "", 1))))
    assert caught.value.reason == "hosting_unavailable"


def test_a_tool_of_a_round_searches_the_memory_and_one_of_a_program_does_not():
    app = app_of(lambda context: search_memory(context, "what the crm said")["items"])
    assert found(call(app)) == []
    with pytest.raises(ToolError) as refused:
        call_in_program(app)
    assert refused.value.reason == "memory_not_here"


def test_a_secret_reaches_only_the_tool_of_a_round(folder, caplog):
    seen = []
    app = app_of(lambda context: seen.append(context.secrets.get_secret("crm.token")), folder=folder)
    with caplog.at_level("DEBUG"):
        conversation = call(app)
    assert seen == [SECRET]
    batches = b"".join(encode_batch(batch) for batch in conversation.batches())
    records = "".join(str(vars(record)) for record in caplog.records)
    requests = str(conversation.model.requests)
    assert SECRET not in f"{batches!r}{records}{requests}{app.agent!r}{app!r}"


@pytest.mark.parametrize("with_descriptors", [True, False])
def test_a_missing_secret_is_an_error_of_the_call(folder, with_descriptors):
    app = app_of(
        lambda context: context.secrets.get_secret("crm.gone"), folder=folder if with_descriptors else ""
    )
    assert found(call(app))["code"] == "secret_missing"
