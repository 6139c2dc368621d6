"""Several bundles on one stage: a conversation has the bundle of its first message, and functions load no other."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from lambdas import act, close, decide, socket
from stepline import InProcess, Lane, Settings, in_memory
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.agent_choice import task_settings
from stepline.bootstrap.program_backend import ProgramBackends
from stepline.bundle.parts import load_tools
from stepline.bundle.workflow import load_workflow
from stepline.errors import InputError, ToolError
from stepline.model.batch import Batch
from stepline.model.entry import Closed, Contributed, Opened, Resulted
from stepline.model.program.execution import ExecRequest
from stepline.model.wire.event import ErrorFrame, decode_frame
from stepline.ports.executor import Job
from stepline.tools.context import Store
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.support.conversation import text_of
from tests.support.generation import answered, called

LANE = Lane(tenant="acme", project="support", conversation="c-1")
WORKFLOW = """
    from pathlib import Path

    from stepline import BaseWorkflow


    class Own(BaseWorkflow):
        tools_module = "{name}.tools"

        @staticmethod
        def pre_run_hook(hook):
            hook.contribute([{{"text": "Prepared by {name}, for the " + str(hook.store.get("visits")) + " time."}}])

        @staticmethod
        def post_run_hook(hook):
            hook.store.put("visits", 1 + (hook.store.get("visits") or 0))
            turn = hook.store.turn()
            hook.store.put("kept", [*hook.store.turns(), turn.messages[0].text, turn.result.answer])


    WORKFLOW = Own
"""
TOOLS = """
    from stepline import Tool, ToolOutput, ToolSpec

    WHOSE = ToolSpec(
        tool_id="{name}.whose",
        purpose="Say whose.",
        schema={{"type": "object", "properties": {{}}, "additionalProperties": False}},
        returns="whose",
        effect="pure",
        read_only=True,
        in_exec=True,
    )


    def whose(params, context):
        said = context.secrets.get_secret("b:token"), context.settings.get_plain("b:place")
        return ToolOutput(blocks=(context.result(WHOSE.tool_id, {{"said": said}}),))


    TOOLS = (Tool(spec=WHOSE, run=whose),)
"""
DESCRIPTORS = {
    "bundles.yaml": """
        bundles:
          default_bundle_id: shop
          items:
            - {id: shop, config: {place: Bern}}
            - {id: guide, config: {place: Basel}}
    """,
    "bundles.secrets.yaml": """
        bundles:
          items:
            - {id: shop, secrets: {token: hunter2}}
            - {id: guide, secrets: {token: swordfish}}
    """,
}
NAMES = ("several_shop", "several_guide")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Write two bundles to a folder of modules; return the variables of their stage."""
    for name in NAMES:
        (tmp_path / name / "skills/own").mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text(dedent(WORKFLOW.format(name=name)))
        (tmp_path / name / "tools.py").write_text(dedent(TOOLS.format(name=name)))
        (tmp_path / name / "skills/own/SKILL.md").write_text(
            f"---\nname: own\ndescription: How {name} does it.\n---\nOurs.\n"
        )
    (tmp_path / "descriptors").mkdir()
    for name, text in DESCRIPTORS.items():
        (tmp_path / "descriptors" / name).write_text(dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    load_tools.cache_clear()
    guide = {"module": "several_guide", "props": {"react": {"max_iterations": 4}}}
    yield {
        "STEPLINE_BUNDLE": "several_shop",
        "STEPLINE_BUNDLES": json.dumps({"guide": guide}),
        "PLATFORM_DESCRIPTORS_DIR": str(tmp_path / "descriptors"),
    }
    load_tools.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


def message(**fields: str) -> dict[str, Any]:
    said = {"action": "send", "conversation": "c-1", "message_id": "m1", "text": "Whose is it?", **fields}
    return {**recorded("message"), "body": json.dumps(said)}


def converse(
    runtime: LambdaRuntime, settings: dict[str, str], bundle: str = "", **others: str
) -> dict[str, list[Batch]]:
    """Run a turn of each conversation like the state machine; return their logs.

    `c-1` has the bundle `bundle`; `others` are the bundles of others, as `c_2`.
    """
    chosen = {"c-1": bundle} | {name.replace("_", "-"): one for name, one in others.items()}
    runtime.model = MemoryModelClient()
    runtime.wire(**settings)
    runtime.call(socket.handler, recorded("connect"))
    for conversation, one in chosen.items():
        runtime.model.add(called(f"several_{one or 'shop'}.whose", {}), answered("Ours."))
        named = {"bundle": one} if one else {}
        runtime.call(socket.handler, message(conversation=conversation, **named))
        drive(runtime)
    runtime.model.assert_read()
    lanes = {name: Lane(tenant="acme", project="support", conversation=name) for name in chosen}
    return {name: runtime.app.ports.log.since(lane, 0) for name, lane in lanes.items()}


def drive(runtime: LambdaRuntime) -> dict[str, Any]:
    """Run the newest execution to its end; return its last step."""
    _, step = runtime.app.ports.machine.queue.pop(0)  # type: ignore[attr-defined]  # the memory twin's own
    handlers = {"decide": decide.handler, "act": act.handler, "close": close.handler}
    passed = json.loads(json.dumps({name: getattr(step, name) for name in step.__struct_fields__}))
    state = "decide"
    while state in handlers:
        passed = runtime.call(handlers[state], {"step": passed, "attempt": 0})
        state = "decide" if state == "act" else passed["route"]
    return passed


def entries(batches: list[Batch], kind: type[Any]) -> list[Any]:
    return [entry for batch in batches for entry in batch.entries if isinstance(entry, kind)]


@pytest.mark.parametrize(
    ("bundle", "package", "said", "rounds"),
    [("", "several_shop", ["hunter2", "Bern"], 15), ("guide", "several_guide", ["swordfish", "Basel"], 4)],
)
def test_a_conversation_has_tools_hooks_skills_settings_and_secrets_of_its_bundle(
    runtime: LambdaRuntime,
    settings: dict[str, str],
    *,
    bundle: str,
    package: str,
    said: list[str],
    rounds: int,
) -> None:
    batches = converse(runtime, settings, bundle)["c-1"]
    (opened,), (result,), (closed,) = (entries(batches, kind) for kind in (Opened, Resulted, Closed))
    assert opened.rounds == rounds
    assert json.loads(result.blocks[0].text)["said"] == said
    assert closed.answer == "Ours."
    (prepared,) = [entry for entry in entries(batches, Contributed) if entry.hook == "pre_run_hook"]
    assert prepared.blocks[0].text == f"Prepared by {package}, for the None time."
    (other,) = set(NAMES) - {package}
    for request in runtime.model.requests:
        read = "".join(part.text for part in request.system) + text_of(request)
        assert f"How {package} does it." in read
        assert other not in read


def test_a_bundle_that_no_conversation_chose_is_not_loaded(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    converse(runtime, settings)
    assert "several_shop.tools" in sys.modules
    assert "several_guide" not in sys.modules


def test_two_conversations_of_one_process_have_each_their_own(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    logs = converse(runtime, settings, "guide", c_2="", c_3="guide")
    assert [entries(batches, Resulted)[0].tool_id for batches in logs.values()] == [
        "several_guide.whose",
        "several_shop.whose",
        "several_guide.whose",
    ]


def test_a_bundle_does_not_find_user_data_of_another_bundle(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    logs = converse(runtime, settings, "guide", c_2="guide", c_3="")
    visits = [entries(batches, Contributed)[0].blocks[0].text.split()[-2] for batches in logs.values()]
    assert visits == ["None", "1", "None"]


def test_the_hooks_of_functions_read_turns_in_their_store(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    (batches,) = converse(runtime, settings, "guide").values()
    ports, (closed,) = runtime.app.ports, entries(batches, Closed)
    values = Store(artifacts=ports.artifacts, lane=LANE, user=batches[-1].state.owner, bundle="guide")
    assert values.get("kept") == [closed.turn, "Whose is it?", "Ours."]


def test_the_log_is_the_same_in_process(runtime: LambdaRuntime, settings: dict[str, str]) -> None:
    there = converse(runtime, settings, "guide")["c-1"]
    model = MemoryModelClient(called("several_guide.whose", {}), answered("Ours."))
    app = in_memory(Settings.from_env(settings), model=model)
    workflow = load_workflow("several_guide")(InProcess(app), LANE, user="ada")
    asyncio.run(workflow.process({"text": "Whose is it?", "message_id": "m1"}))
    here = app.ports.log.since(LANE, 0)
    assert [(batch.entries, batch.state) for batch in here] == [
        (batch.entries, batch.state) for batch in there
    ]


def test_a_process_does_not_continue_with_another_bundle(settings: dict[str, str]) -> None:
    model = MemoryModelClient(answered("Ours."), answered("Mine."))
    runtime = InProcess(in_memory(Settings.from_env(settings), model=model))
    guide, shop = (load_workflow(f"several_{name}")(runtime, LANE, user="ada") for name in ("guide", "shop"))
    asyncio.run(guide.process({"text": "Hello."}))
    with pytest.raises(InputError) as caught:
        asyncio.run(shop.process({"text": "Hello."}))
    assert caught.value.reason == "another_bundle"
    asyncio.run(guide.process({"text": "Hello again."}))


def test_a_turn_of_a_removed_bundle_ends_with_an_error(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    runtime.wire(**settings)
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, message(bundle="guide"))
    log = runtime.app.ports.log
    (_, step) = runtime.app.ports.machine.queue[0]  # type: ignore[attr-defined]  # the memory twin's own
    runtime.wire(log, **{**settings, "STEPLINE_BUNDLES": ""})  # type: ignore[arg-type]  # it is one
    passed = json.loads(json.dumps({name: getattr(step, name) for name in step.__struct_fields__}))
    with pytest.raises(InputError) as caught:
        runtime.call(decide.handler, {"step": passed, "attempt": 0})
    assert caught.value.reason == "unknown_bundle"
    failed = {**passed, "error": {"Error": "InputError", "Cause": "{}"}}
    assert runtime.call(close.handler, {"step": failed, "attempt": 0})["route"] == "done"
    (closed,) = entries(log.since(LANE, 0), Closed)
    assert (closed.outcome, closed.code) == ("error", "step_failed")


def test_a_client_gets_a_code_for_an_unknown_or_changed_bundle_name(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    runtime.wire(**settings)
    inbox: list[bytes] = runtime.app.ports.publisher.open("k1")  # type: ignore[attr-defined]  # the memory twin's own
    runtime.call(socket.handler, recorded("connect"))
    for number, name in enumerate(("nowhere", "guide", "default", "../guide")):
        runtime.call(socket.handler, message(bundle=name, message_id=f"m{number}"))
    errors = [frame for frame in map(decode_frame, inbox) if isinstance(frame, ErrorFrame)]
    assert [(frame.code, frame.retryable) for frame in errors] == [
        ("unknown_bundle", False),
        ("another_bundle", False),
        ("bad_message", False),
    ]


def test_a_program_calls_the_tools_of_its_conversations_bundle(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    logs = converse(runtime, settings, "guide", c_2="")
    for conversation, own, other in (("c-1", "guide", "shop"), ("c-2", "shop", "guide")):
        tools = (f"several_{own}.whose", f"several_{other}.whose")
        request = ExecRequest(
            exec_id="tc_000000000000",
            lane=Lane(tenant="acme", project="support", conversation=conversation),
            turn=entries(logs[conversation], Closed)[0].turn,
            iteration=1,
            at="2026-11-21T10:00:00.000Z",
            n=len(logs[conversation]),
            code="",
            contract=(),
            tools=tools,
        )
        job = Job(request=request, batches=logs[conversation], fetch=lambda _: b"", spool=Path())
        host = ProgramBackends(runtime.app).tool_host(job)
        assert host.call(tools[0], {})
        with pytest.raises(ToolError) as caught:
            host.call(tools[1], {})
        assert caught.value.reason == "unknown_tool"


def test_a_program_of_a_bundle_finds_its_files_and_a_task_its_descriptors(
    runtime: LambdaRuntime, settings: dict[str, str]
) -> None:
    runtime.wire(**settings, EXEC_RUNTIME_MODE="process")
    for bundle, package, token in (("", "several_shop", "hunter2"), ("guide", "several_guide", "swordfish")):
        own = runtime.app.of(bundle)
        assert own.agent.execution is not None
        assert own.agent.execution.bundle == package
        texts = own.scoped_texts("active_bundle")
        assert token in texts["bundles.secrets"]
        assert len(texts["bundles.secrets"].split("token")) == 2
        handed = Settings.from_env(task_settings(own.settings))
        assert handed.bundles["guide"].module == "several_guide"
