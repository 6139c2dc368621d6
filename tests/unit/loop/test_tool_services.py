"""What a tool that the model calls in a round has of its deployment: settings, secrets, and the model."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bootstrap.program_backend import ProgramBackends
from stepline.bundle.parts import Parts
from stepline.model.batch import encode_batch
from stepline.model.entry import Resulted
from stepline.model.program.execution import ExecRequest
from stepline.ports.executor import Job
from stepline.ports.model import ModelRequest, Part
from stepline.settings import Settings
from stepline.tools.context import ToolOutput
from stepline.tools.registry import Registry
from tests.support.conversation import LANE, Conversation, tool
from tests.support.generation import answered, called

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
    """Return an app whose agent has one tool of its own; its result is what `read` finds in its context."""

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


def call_in_program(app):
    """Return what the tool finds when a program calls it."""
    request = ExecRequest(
        exec_id="e1", lane=LANE, turn="", iteration=0, at="", n=0, code="", contract=(), tools=(CALL,)
    )
    job = Job(request=request, batches=(), fetch=app.ports.artifacts.get, spool=Path())
    return ProgramBackends(app).tool_host(job).call(CALL, {})


@pytest.mark.parametrize("path", ["crm.url", "b:unit"])
def test_a_tool_of_a_round_reads_the_same_settings_as_one_of_a_program(folder, path):
    app = app_of(lambda context: context.settings.get_plain(path), folder=folder)
    assert (
        found(call(app)) == call_in_program(app) == {"crm.url": "https://crm.example", "b:unit": "km"}[path]
    )


def test_a_tool_of_a_round_asks_the_model_as_one_of_a_program_does():
    app = app_of(ask, model=MemoryModelClient("4", "4"))
    assert found(call(app)) == call_in_program(app) == "4"


def test_a_secret_reaches_the_tool_of_a_round_and_no_place_beside_it(folder, caplog):
    told = []
    app = app_of(lambda context: told.append(context.secrets.get_secret("crm.token")), folder=folder)
    with caplog.at_level("DEBUG"):
        conversation = call(app)
    assert told == [SECRET]
    batches = b"".join(encode_batch(batch) for batch in conversation.batches())
    records = "".join(str(vars(record)) for record in caplog.records)
    requests = str(conversation.model.requests)
    assert SECRET not in f"{batches!r}{records}{requests}{app.agent!r}{app!r}"


@pytest.mark.parametrize("with_descriptors", [True, False])
def test_a_secret_that_is_not_there_is_an_error_of_the_call(folder, with_descriptors):
    app = app_of(
        lambda context: context.secrets.get_secret("crm.gone"), folder=folder if with_descriptors else ""
    )
    assert found(call(app))["code"] == "secret_missing"
