"""A program of a bundle's agent in this process: it runs beside the turn, and calls the bundle's tools."""

import asyncio
import sys
from types import ModuleType

import pytest

from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.in_process import InProcess
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.parts import load_tools
from stepline.bundle.workflow import BaseWorkflow, load_workflow
from stepline.errors import InputError
from stepline.model.entry import Resulted
from stepline.model.ids import Lane
from stepline.settings import Settings
from stepline.tools.context import ToolOutput
from stepline.tools.registry import Tool
from stepline.tools.served.program_calls import ProgramCalls
from stepline.tools.spec import ToolSpec
from tests.contract.executor_jobs import HOME, sound_process_bench
from tests.support.bundle_on_disk import BUNDLE, bundle_on_disk
from tests.support.generation import PROGRAM, answered, coded

LANE = Lane(tenant="acme", project="docs", conversation="c-1")
CODE = """
price = agent_io_tools.tool_call(tool_id="shop.price", params={})
with open("outputs/price.txt", "w") as file:
    file.write(f"{price['eur']} euros")
"""
PRICE = ToolSpec(
    tool_id="shop.price",
    purpose="Look up the price.",
    schema={"type": "object", "properties": {}, "additionalProperties": False},
    returns="the price",
    effect="pure",
    read_only=True,
    in_exec=True,
)


class Shop(BaseWorkflow):
    tools_module = "shop.tools"

    async def process(self, payload):
        react = await self.build_react(knowledge_read_fn=lambda path: path)
        return await react.run(payload)


@pytest.fixture
def shop(monkeypatch):
    module = ModuleType("shop.tools")
    price = Tool(spec=PRICE, run=lambda *_: ToolOutput(ret={"eur": 12.5}))
    vars(module)["TOOLS"] = [price]
    monkeypatch.setitem(sys.modules, "shop.tools", module)
    load_tools.cache_clear()
    yield Shop
    load_tools.cache_clear()


class AskingShop(Shop):
    program_calls = ProgramCalls(tools=("react.memsearch",), roles=("shop.classify",))


def runtime_of(model, **variables):
    return InProcess(in_memory(Settings.from_env(variables), model=model))


def run_program(workflow, code, filename, *answers):
    """Run a program in a turn of a workflow; return the runtime, the workflow and the turn's result.

    `answers` are the model's to the program.
    """
    with sound_process_bench():
        pass
    model = MemoryModelClient(coded(code, filename), *answers, answered("It is in the file."))
    variables = {"STEPLINE_EXEC_PYTHON": sys.executable, "STEPLINE_EXEC_HOME": str(HOME)}
    runtime = runtime_of(model, EXEC_RUNTIME_MODE="process", **variables)
    made = workflow(runtime, LANE, user="ada")
    try:
        result = asyncio.run(made.process({"text": "What does it cost?"}))
    finally:
        runtime.close()
    model.assert_read()
    return runtime, made, result


def test_a_program_calls_the_bundles_tool_and_leaves_its_file(shop):
    runtime, workflow, result = run_program(shop, CODE, "price.txt")
    assert result.answer == "It is in the file."
    batches = runtime.ports.log.since(LANE, 0)
    (ran,) = [entry for batch in batches for entry in batch.entries if isinstance(entry, Resulted)]
    assert (ran.status, ran.program) == ("ok", True)
    fetched = asyncio.run(workflow.ctx_client.fetch_ctx(f"fi:{result.turn_id}.outputs/price.txt"))
    assert fetched["ret"]["text"] == "12.5 euros"


def test_a_program_searches_memory_and_asks_the_model_if_its_bundle_declares_it(shop):
    code = """
found = react.memsearch(mode="timeline")
said = model_tools.ask(prompt="Is it late?")
open("outputs/said.txt", "w").write(found["status"] + " " + said["text"])
"""
    runtime, workflow, result = run_program(AskingShop, code, "said.txt", "no")
    fetched = asyncio.run(workflow.ctx_client.fetch_ctx(f"fi:{result.turn_id}.outputs/said.txt"))
    assert fetched["ret"]["text"] == "ok no"
    roles = [call.role for batch in runtime.ports.log.since(LANE, 0) for call in batch.calls]
    assert roles.count("shop.classify") == 1


def test_with_programs_only_in_tasks_the_local_agent_has_none(shop):
    fargate = {"FARGATE_CLUSTER": "ours", "FARGATE_TASK_DEFINITION": "exec", "FARGATE_SUBNETS": "subnet-1"}
    agent = runtime_of(None, EXEC_RUNTIME_MODE="fargate", **fargate).build_agent(Shop.parts())
    assert PROGRAM not in agent.tools
    beside = runtime_of(None, EXEC_RUNTIME_MODE="docker", **fargate).build_agent(Shop.parts())
    assert beside.execution.places == {"inline"}


def test_a_program_finds_the_bundle_of_the_workflow_that_runs_it():
    code = (
        "open('outputs/found.txt', 'w').write(BUNDLE_ID + ' ' + open(BUNDLE_ROOT + '/guide/roses.md').read())"
    )
    with bundle_on_disk() as package:
        module = (
            f"import {Shop.__module__} as shop\nclass Roses(shop.Shop): tools_module = ''\nWORKFLOW = Roses\n"
        )
        (package / "__init__.py").write_text(module)
        _, workflow, result = run_program(load_workflow(BUNDLE), code, "found.txt")
    fetched = asyncio.run(workflow.ctx_client.fetch_ctx(f"fi:{result.turn_id}.outputs/found.txt"))
    assert fetched["ret"]["text"] == f"{BUNDLE} Thorns\n"


def test_a_bundle_that_is_not_there_is_named_by_a_code():
    with pytest.raises(InputError) as caught:
        _ = in_memory(Settings.from_env({"STEPLINE_BUNDLE": "bundles.none"})).agent
    assert caught.value.reason == "bundle_not_found"
