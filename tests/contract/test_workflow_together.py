"""What callers of one conversation, or of many, may count on while others run, end, or give up."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.in_process_machine import InProcessMachine
from stepline.adapters.memory.model import Fail, MemoryModelClient
from stepline.bootstrap import in_process
from stepline.bundle.workflow import BaseWorkflow
from stepline.errors import ModelRefused, NotFoundError
from stepline.model.entry import Closed, TakenOver
from tests.contract.workflow_processes import WAIT_S, Slow, WorkflowProcesses
from tests.support.conversation import text_of
from tests.support.generation import answered, called


@pytest.fixture
def processes(backend, lane):
    return WorkflowProcesses(backend, lane)


@pytest.fixture
def hooked():
    """Return a workflow, and the texts of the messages that its hook has run for."""
    ran = []

    class Hooked(BaseWorkflow):
        @staticmethod
        def pre_run_hook(hook):
            ran.append(hook.messages[0].text)

    return Hooked, ran


def start(processes, runtime, text, workflow=WORKFLOW, **payload):
    process = workflow(runtime, processes.lane, user="ada").process({"text": text, **payload})
    return asyncio.create_task(process)


async def admitted(processes, messages):
    for _ in range(messages):
        await asyncio.to_thread(processes.log.entered.get, timeout=WAIT_S)


def test_a_message_sent_twice_at_once_is_one_message_and_has_one_answer(processes):
    model = MemoryModelClient(answered("Once."))
    runtime = processes.process(model)

    async def talk():
        return await asyncio.gather(
            *(start(processes, runtime, "hello", message_id="m-1") for _ in range(3)),
        )

    first, second, third = asyncio.run(talk())
    model.assert_read()
    assert first == second == third
    assert first.answer == "Once."
    assert len(processes.entries(Closed)) == 1


def test_an_answered_caller_does_not_wait_for_the_next_turn(processes, hooked):
    workflow, ran = hooked
    asked, go_on, released = threading.Event(), threading.Event(), threading.Event()

    def say(request):
        if "and the second" not in text_of(request):
            asked.set()
            assert go_on.wait(WAIT_S)
            return Fail(error=ModelRefused("no"))
        assert released.wait(WAIT_S)
        return answered("To the second.")

    runtime = processes.process(Slow(say))

    async def talk():
        first = start(processes, runtime, "the first", workflow)
        await asyncio.to_thread(asked.wait, WAIT_S)
        second = start(processes, runtime, "and the second", workflow)
        await admitted(processes, 2)
        go_on.set()
        failed = await first
        released.set()
        return failed, await second

    first, second = asyncio.run(talk())
    assert (first.outcome, first.code) == ("error", "model_refused")
    assert second.answer == "To the second."
    assert ran == ["the first", "and the second"]


def test_a_waiting_caller_takes_the_turn_over_when_its_driver_gives_up(processes):
    asked, over = threading.Event(), threading.Event()

    def say(_):
        if not asked.is_set():
            asked.set()
            assert over.wait(WAIT_S)
            return answered("Too late.")
        return answered("To both.")

    runtime = processes.process(Slow(say))

    async def talk():
        first = start(processes, runtime, "the first")
        await asyncio.to_thread(asked.wait, WAIT_S)
        second = start(processes, runtime, "and the second")
        await admitted(processes, 2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        try:
            return await second
        finally:
            over.set()

    assert asyncio.run(talk()).answer == "To both."
    assert len(processes.entries(TakenOver)) == 1


class LateMachine(InProcessMachine):
    """Starts an execution only after the next look at the waiting ones."""

    def __init__(self):
        super().__init__()
        self.held = []

    def start(self, name, step):
        self.held.append((name, step))
        return True

    def take(self, lane):
        found = super().take(lane)
        while self.held:
            super().start(*self.held.pop())
        return found


def test_an_execution_started_during_a_lookup_is_found(processes, monkeypatch):
    monkeypatch.setattr(in_process, "InProcessMachine", LateMachine)
    workflow = WORKFLOW(processes.process(MemoryModelClient(answered("Done."))), processes.lane, user="ada")

    async def talk():
        async with asyncio.timeout(WAIT_S):
            return await workflow.process({"text": "hello"})

    assert asyncio.run(talk()).answer == "Done."


def test_a_coroutine_of_the_bundle_may_use_threads_while_every_step_waits_for_one(processes):
    class Knowing(BaseWorkflow):
        async def process(self, payload):
            react = await self.build_react(knowledge_space_fn=self.search, knowledge_read_fn=self.read)
            return await react.run(payload)

        async def search(self, query, limit):
            return await asyncio.to_thread(lambda: [{"path": "ks:a.md", "title": query}][:limit])

        async def read(self, path):
            return await asyncio.to_thread(lambda: f"what {path} says")

    model = MemoryModelClient(called("react.search_knowledge", {"query": "delivery"}), answered("Found."))
    workflow = Knowing(processes.process(model), processes.lane, user="ada")

    async def talk():
        with ThreadPoolExecutor(1) as one:
            asyncio.get_running_loop().set_default_executor(one)
            async with asyncio.timeout(WAIT_S):
                result = await workflow.process({"text": "How long?"})
                return result, await workflow.ctx_client.fetch_ctx("ks:a.md")

    result, fetched = asyncio.run(talk())
    model.assert_read()
    assert result.answer == "Found."
    assert fetched["ret"]["text"] == "what ks:a.md says"


def test_the_context_of_a_foreign_conversation_is_not_shown(processes):
    runtime = processes.process(MemoryModelClient(answered("Hello.")))
    processes.ask(runtime)
    workflow = WORKFLOW(runtime, processes.lane, user="eve")
    browser = workflow.ctx_browser
    for ask in (
        browser.load_timeline,
        browser.timeline,
        browser.persist,
        lambda: workflow.ctx_client.fetch_ctx("ar:plan.latest:p1"),
        lambda: workflow.ctx_client.search("hello"),
        lambda: browser.contribute([{"text": "x"}]),
    ):
        with pytest.raises(NotFoundError):
            asyncio.run(ask())
