"""A bundle gives the same turn in a process and in the functions, and a process that dies at a hook repeats nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lambdas import act, close, decide, socket
from stepline import (
    BaseWorkflow,
    InProcess,
    Lane,
    NamespaceResolver,
    PathScope,
    Settings,
    Skill,
    ToolContext,
    ToolOutput,
    in_memory,
)
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bundle.parts import load_skills, load_tools
from stepline.model.batch import Batch
from stepline.model.entry import Closed, Contributed, Decided, Resulted
from stepline.ports.model import ModelRequest, Part
from stepline.timeline.fold import Timeline
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.support.conversation import text_of, tool
from tests.support.generation import answered, called

LANE = Lane(tenant="acme", project="support", conversation="c-1")
TEXT = "the user's secret question"
SCRIPT = (
    called("shop.sum", {}),
    "4",
    called("react.read", {"paths": ["sk:shop.refund", "ks:delivery.md", "crm:customers/42"]}),
    answered("Four."),
)
SECRETS = "crm: {token: hunter2}\n"
ran: list[str] = []


class Dead(BaseException):
    """The process has died."""


def dies_at(name: str) -> None:
    """Record that a hook has run, and end the process if it must die in this hook."""
    ran.append(name)
    if name in deadly:
        deadly.remove(name)
        raise Dead


deadly: list[str] = []


def ask(context: Any) -> str:
    request = ModelRequest(role="*", system=(), content=(Part(text="2 + 2?"),), max_tokens=10)
    with context.model.stream(request) as running:
        return "".join(running)


def add_up(context: ToolContext) -> ToolOutput:
    assert context.secrets.get_secret("crm.token") == "hunter2"
    return ToolOutput(blocks=(context.result("shop.sum", {"sum": ask(context)}),))


async def find_customer(path: str, scope: PathScope) -> str:
    assert scope.secrets.get_secret("crm.token") == "hunter2"
    return f"{path} of {scope.user}, {scope.lane.tenant}"


class Shop(BaseWorkflow):
    """Has one of each part."""

    resolvers = (NamespaceResolver(namespace="crm", resolve=find_customer, about="customers/<number>"),)

    tools_module = "hooked_shop.tools"
    skills_module = "hooked_shop.skills"

    @staticmethod
    def knowledge_read_fn(path: str) -> str | None:
        return {"ks:delivery.md": "It takes three days."}.get(path)

    @staticmethod
    def on_bundle_load(services: Any) -> None:
        ran.append(f"on_bundle_load {services.secrets.get_secret('crm.token')}")

    @staticmethod
    async def pre_run_hook(hook: Any) -> None:
        hook.contribute([{"text": f"{hook.user} asked: {hook.messages[0].text}"}])
        hook.emit("shop.greeted", {"user": hook.user})
        dies_at("pre_run_hook")

    @staticmethod
    def before_round(hook: Any) -> None:
        hook.contribute([{"text": f"Round {hook.round}."}])
        dies_at(f"before_round {hook.round}")

    @staticmethod
    def post_run_hook(hook: Any) -> None:
        assert hook.closed.outcome == "completed"
        dies_at(f"post_run_hook {hook.closed.answer}")


RAN = [
    "on_bundle_load hunter2",
    "pre_run_hook",
    "before_round 0",
    "before_round 1",
    "before_round 2",
    "post_run_hook Four.",
]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Write the bundle to a folder of modules; return the variables that name it."""
    for name, content in {
        "hooked_shop": {"WORKFLOW": Shop},
        "hooked_shop.tools": {"TOOLS": [tool("shop.sum", "once", add_up)]},
        "hooked_shop.skills": {
            "SKILLS": [Skill(id="shop.refund", title="Refund", text="Never promise a date.")]
        },
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    (tmp_path / "secrets.yaml").write_text(SECRETS)
    load_tools.cache_clear()
    load_skills.cache_clear()
    ran.clear()
    deadly.clear()
    yield {"STEPLINE_BUNDLE": "hooked_shop", "PLATFORM_DESCRIPTORS_DIR": str(tmp_path)}
    load_tools.cache_clear()
    load_skills.cache_clear()


def deployed(runtime: LambdaRuntime, settings: dict[str, str]) -> list[Batch]:
    """Run the turn like the state machine, which retries a step whose process died."""
    runtime.model = MemoryModelClient(*SCRIPT)
    runtime.wire(**settings)
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    handlers = {"decide": decide.handler, "act": act.handler, "close": close.handler}
    state, event = "decide", recorded("step")
    while state in handlers:
        step = tried(lambda event: runtime.call(handlers[state], event), event)  # noqa: B023 - called immediately
        event = {"step": step, "attempt": 0}
        state = "decide" if state == "act" else step["route"]
    runtime.model.assert_read()
    return runtime.app.ports.log.since(LANE, 0)


def tried(run: Callable[[dict[str, Any]], dict[str, Any]], event: dict[str, Any]) -> dict[str, Any]:
    try:
        return run(event)
    except Dead:
        return run({**event, "attempt": event["attempt"] + 1})


def in_process(settings: dict[str, str]) -> tuple[list[Batch], MemoryModelClient]:
    """Run the turn in this process."""
    model = MemoryModelClient(*SCRIPT)
    app = in_memory(Settings.from_env(settings), model=model)
    workflow = Shop(InProcess(app), LANE, user="ada")
    asyncio.run(workflow.process({"text": TEXT, "message_id": "m1"}))
    model.assert_read()
    return app.ports.log.since(LANE, 0), model


def entries(batches: list[Batch], kind: type[Any]) -> list[Any]:
    return [entry for batch in batches for entry in batch.entries if isinstance(entry, kind)]


def test_it_gives_the_same_log_and_the_same_blocks_in_a_process_and_in_the_functions(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    here, model = in_process(settings)
    assert ran == RAN
    ran.clear()
    there = deployed(runtime, settings)
    assert ran == RAN
    assert [(batch.entries, batch.state) for batch in there] == [
        (batch.entries, batch.state) for batch in here
    ]
    blocks = [Timeline.empty(LANE).extended(batches).blocks() for batches in (here, there)]
    assert blocks[0] == blocks[1]
    assert [text_of(one) for one in runtime.model.requests] == [text_of(one) for one in model.requests]
    last = text_of(model.requests[-1])
    for text in (
        f"ada asked: {TEXT}",
        "Round 2.",
        '"sum":"4"',
        "Never promise a date.",
        "It takes three days.",
        "customers/42 of ada, acme",
    ):
        assert text in last


def test_model_calls_of_a_tool_are_charged_to_its_turn(settings: dict[str, str]) -> None:
    batches, _ = in_process(settings)
    asked = sum(entry.cost.output_tokens for entry in entries(batches, Decided))
    first, _ = entries(batches, Resulted)
    (closed,) = entries(batches, Closed)
    assert first.usage.output_tokens > 0
    assert closed.usage.output_tokens == asked + first.usage.output_tokens == batches[-1].state.output_tokens


@pytest.mark.parametrize("at", RAN[1:])
def test_a_function_that_dies_in_a_hook_does_not_run_it_again(
    runtime: LambdaRuntime, settings: dict[str, str], at: str
) -> None:
    deadly.append(at)
    batches = deployed(runtime, settings)
    assert ran == RAN
    unknown = [entry.hook for entry in entries(batches, Contributed) if entry.status == "unverified"]
    assert unknown == [at.partition(" ")[0]]
    assert entries(batches, Closed)[0].answer == "Four."


@pytest.mark.parametrize(
    ("bundle", "code"), [("no_such_bundle", "bundle_not_found"), ("broken", "bundle_failed")]
)
def test_a_bundle_that_cannot_be_loaded_does_not_fail_an_execution_whose_turn_has_ended(
    runtime: LambdaRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bundle: str, code: str
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    runtime.model = MemoryModelClient(answered("Done."))
    runtime.wire(STEPLINE_BUNDLE="bundles.default")
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    step = runtime.call(decide.handler, recorded("step"))
    log = runtime.app.ports.log
    runtime.wire(log, STEPLINE_BUNDLE=bundle)  # type: ignore[arg-type]  # the memory twin's
    assert runtime.call(close.handler, {"step": step, "attempt": 0})["route"] == "done"
    assert entries(log.since(LANE, 0), Closed)[0].answer == "Done."
    assert "HooksFailed" in runtime.metrics()
    assert [line["code"] for line in runtime.lines if line["level"] == "ERROR"] == [code]


def test_a_bundle_without_hooks_writes_what_it_wrote_before(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    script = runtime.model = MemoryModelClient(answered("Done."))
    runtime.wire(STEPLINE_BUNDLE="bundles.default")
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    step = runtime.call(decide.handler, recorded("step"))
    runtime.call(close.handler, {"step": step, "attempt": 0})
    script.assert_read()
    kinds = [
        [type(entry).__name__ for entry in batch.entries] for batch in runtime.app.ports.log.since(LANE, 0)
    ]
    assert kinds == [["Owner", "Inbound", "Opened"], ["Decided"], ["Closed"]]
