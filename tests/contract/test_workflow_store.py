"""`store` of a workflow and of its hooks: the same turns, artifacts and values, over every backend."""

import asyncio
from dataclasses import replace
from typing import ClassVar

import pytest
from msgspec import structs

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.in_process import InProcess
from stepline.bundle.workflow import BaseWorkflow
from stepline.errors import InputError, LimitError, NotFoundError
from stepline.model.path import store_key
from stepline.settings import Settings
from tests.contract.workflow_processes import WorkflowProcesses
from tests.support.generation import answered, called

WRITE = called("react.write", {"path": "files/a.md", "channel": "canvas", "content": "# A\n", "kind": "file"})
TABLE = {"filename": "a.csv", "data": b"a,b\n"}


class Keeping(BaseWorkflow):
    """Remembers what its hooks found in the store."""

    seen: ClassVar[list] = []

    @staticmethod
    def pre_run_hook(hook):
        Keeping.seen.append((hook.store.turn(), hook.store.get("asked")))

    @staticmethod
    async def post_run_hook(hook):
        turn = hook.store.turn()
        Keeping.seen.append((turn, hook.store.artifact(f"fi:{hook.turn}.files/a.md")))
        hook.store.put("asked", [*(hook.store.get("asked") or []), turn.messages[0].text])


@pytest.fixture
def processes(backend, lane):
    """A project of each test's own: values outlive a conversation."""
    Keeping.seen.clear()
    return WorkflowProcesses(backend, structs.replace(lane, project=lane.conversation))


def store_of(processes, runtime, user="ada", workflow=Keeping):
    return workflow(runtime, processes.lane, user=user).store


def test_a_turn_has_its_payloads_and_its_result(processes):
    runtime = processes.process(MemoryModelClient(answered("One."), answered("Two.")))
    form = {"kind": "form", "payload": {"size": "L"}, "attachments": [TABLE]}
    first = processes.ask(runtime, "first", workflow=Keeping, timezone="Asia/Kathmandu")
    second = processes.ask(runtime, "second", workflow=Keeping, **form)
    store = store_of(processes, runtime)
    assert store.turns() == (first.turn_id, second.turn_id)
    (said,) = store.turn(first.turn_id).messages
    assert (said.text, said.timezone) == ("first", "Asia/Kathmandu")
    newest = store.turn()
    assert (newest.turn_id, newest.result) == (second.turn_id, second)
    (said,) = newest.messages
    assert (said.text, said.payload) == ("second", {"size": "L"})
    assert [file.filename for file in said.attachments] == ["a.csv"]
    assert store.timeline().turns == store.turns()


def test_hooks_see_the_same_store_at_their_point_of_the_turn(processes):
    runtime = processes.process(MemoryModelClient(WRITE, answered("Written.")))
    result = processes.ask(runtime, "write it", workflow=Keeping)
    (before, asked), (after, written) = Keeping.seen
    assert (before.turn_id, before.result, asked) == (result.turn_id, None, None)
    store = store_of(processes, runtime)
    assert after == store.turn() == store.turn(result.turn_id)
    path = f"fi:{result.turn_id}.files/a.md"
    assert (
        written == store.artifact(path) == {"path": path, "ret": {"mime": "text/markdown", "text": "# A\n"}}
    )
    assert store.get("asked") == ["write it"]


def test_a_value_is_found_in_another_process_and_another_conversation_of_the_user(processes):
    runtime = processes.process(MemoryModelClient())
    store_of(processes, runtime).put("wish", {"colour": "red"})
    another = processes.process(MemoryModelClient())
    elsewhere = Keeping(another, structs.replace(processes.lane, conversation="c-other"), user="ada").store
    assert store_of(processes, another).get("wish") == elsewhere.get("wish") == {"colour": "red"}
    elsewhere.put("wish", None)
    assert store_of(processes, runtime).get("wish") is None


def test_a_value_has_its_tenant_project_and_user_in_its_key(processes):
    runtime, lane = processes.process(MemoryModelClient()), processes.lane
    store_of(processes, runtime).put("wish", "mine")
    assert processes.app.ports.artifacts.get(store_key(lane, "ada", "wish")) == b'"mine"'
    for other, user in (
        (structs.replace(lane, tenant="other"), "ada"),
        (structs.replace(lane, project="other"), "ada"),
        (structs.replace(lane, conversation="c-eve"), "eve"),
    ):
        assert Keeping(runtime, other, user=user).store.get("wish") is None


def test_each_bundle_of_a_stage_has_its_own_values(processes):
    for named, bundle in (("bundles.docs", "shop"), ("bundles.default", "")):
        variables = {"STEPLINE_BUNDLE": named, "STEPLINE_BUNDLES": '{"shop": "bundles.default"}'}
        runtime = InProcess(replace(processes.app, settings=Settings.from_env(variables)))
        store = store_of(processes, runtime, workflow=WORKFLOW)
        assert store.get("wish") is None
        store.put("wish", bundle)
        key = store_key(processes.lane, "ada", "wish", bundle=bundle)
        assert processes.app.ports.artifacts.get(key).decode() == f'"{bundle}"'


def test_the_store_of_another_users_conversation_is_not_found(processes):
    runtime = processes.process(MemoryModelClient(answered("Hello.")))
    processes.ask(runtime, workflow=Keeping)
    store = store_of(processes, runtime, user="eve")
    for ask in (
        store.turns,
        store.turn,
        store.timeline,
        lambda: store.artifact("so:sources_pool"),
        lambda: store.get("asked"),
        lambda: store.put("asked", 1),
    ):
        with pytest.raises(NotFoundError):
            ask()


def test_an_empty_conversation_has_no_turns_and_a_mistake_its_code(processes):
    store = store_of(processes, processes.process(MemoryModelClient()))
    assert store.turns() == ()
    with pytest.raises(NotFoundError) as missing:
        store.turn()
    with pytest.raises(InputError) as named:
        store.put("../wish", 1)
    with pytest.raises(LimitError) as large:
        store.put("wish", "x" * 300_000)
    codes = [caught.value.reason for caught in (missing, named, large)]
    assert codes == ["turn_not_found", "bad_name", "store_value_too_large"]
    assert store.artifact("fi:nowhere")["err"]["code"] == "invalid_path_file"


def test_coroutines_read_the_store_in_a_thread(processes):
    runtime = processes.process(MemoryModelClient(answered("Hello.")))
    result = processes.ask(runtime, workflow=Keeping)

    async def read():
        return await asyncio.to_thread(store_of(processes, runtime).turn, result.turn_id)

    assert asyncio.run(read()).result == result
