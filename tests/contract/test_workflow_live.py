"""Steer, stop and other events in a turn of this process: the same over the memory twins and over AWS's adapters."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import MemoryModelClient
from stepline.errors import InputError, NotFoundError
from stepline.loop.steer import STOPPED
from stepline.model.entry import Closed, Decided, Inbound, Opened, SteeredEntry
from stepline.model.usage import Usage
from stepline.ports.model import Completion
from tests.contract.workflow_processes import WAIT_S, Slow, WorkflowProcesses
from tests.support.conversation import text_of
from tests.support.generation import answered


@pytest.fixture
def processes(backend, lane):
    return WorkflowProcesses(backend, lane)


class Endless:
    """A model that speaks until it is stopped, and then plays the rest of its script."""

    def __init__(self, *script):
        self.speaks = threading.Event()
        self.ended = threading.Event()
        self.rest = MemoryModelClient(*script)
        self.calls = 0

    def stream(self, request):
        self.calls += 1
        return self if self.calls == 1 else self.rest.stream(request)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()

    def __iter__(self):
        begin = answered("So far so good. ").partition("So far so good. ")
        yield begin[0] + begin[1]
        self.speaks.set()
        assert self.ended.wait(WAIT_S)

    def abort(self):
        self.ended.set()

    def completion(self):
        return Completion(text="", stop_reason="aborted", usage=Usage(), model="endless", aborted=True)


async def meanwhile(processes, model, say):
    """Ask, and say something from another task of the same process while the model speaks."""
    runtime = processes.process(model)
    workflow = WORKFLOW(runtime, processes.lane, user="ada")
    asked = asyncio.create_task(workflow.process({"text": "Tell me all.", "message_id": "m-1"}))
    await asyncio.to_thread(model.speaks.wait, WAIT_S)
    said = await say(workflow)
    return SimpleNamespace(result=await asked, said=said, workflow=workflow)


def test_a_stop_from_another_task_ends_the_turn_with_the_shown_text(processes):
    model = Endless()
    come = asyncio.run(meanwhile(processes, model, lambda workflow: workflow.stop()))
    assert (come.result.outcome, come.result.reason) == ("completed", "stop")
    assert (come.result.answer, come.result.message) == ("So far so good. ", STOPPED)
    assert (come.said.fate, come.said.turn_id) == ("joined", come.result.turn_id)
    assert model.calls == 1
    assert [entry.interrupted for entry in processes.entries(Decided)] == [True]


def test_a_steer_from_another_task_brings_the_turn_to_an_end(processes):
    model = Endless(answered("Brief."))
    come = asyncio.run(meanwhile(processes, model, lambda workflow: workflow.steer("be brief")))
    assert (come.result.reason, come.result.answer) == ("steer", "Brief.")
    assert [(entry.text, entry.phase) for entry in processes.entries(SteeredEntry)] == [
        ("be brief", "decision")
    ]


def test_another_thread_with_its_own_event_loop_may_stop_a_turn(processes):
    model = Endless()

    async def say(workflow):
        return await asyncio.to_thread(lambda: asyncio.run(workflow.stop()))

    assert asyncio.run(meanwhile(processes, model, say)).result.reason == "stop"


def test_a_message_queued_at_a_stopped_turn_is_returned_to_its_sender(processes):
    model = Endless()

    async def say(workflow):
        waits = asyncio.create_task(workflow.process({"text": "And that.", "message_id": "m-2"}))
        while await asyncio.to_thread(processes.log.entered.get, timeout=WAIT_S) != "m-2":
            pass
        await workflow.stop()
        return await waits

    come = asyncio.run(meanwhile(processes, model, say))
    assert (come.result.handed_back, come.said.handed_back) == ("", "stopped")
    assert come.said.reason == "stop"
    assert len(processes.entries(Closed)) == 1


def test_a_form_is_answered_by_a_new_turn(processes):
    model = Slow(lambda request: answered("Booked." if "Lisbon" in text_of(request) else "What?"))
    runtime = processes.process(model)
    result = processes.ask(runtime, text="", kind="form", payload={"city": "Lisbon"}, message_id="f-1")
    assert result.answer == "Booked."
    (form,) = processes.entries(Inbound)
    assert (form.event, form.payload) == ("form", {"city": "Lisbon"})


def test_a_submitted_event_is_answered_for_a_request_with_its_id(processes):
    runtime = processes.process(MemoryModelClient(answered("Booked.")))
    workflow = WORKFLOW(runtime, processes.lane, user="ada")

    async def talk():
        submitted = await workflow.submit_event("form", {"city": "Lisbon"}, message_id="f-1")
        return submitted, await workflow.process({"kind": "form", "message_id": "f-1"})

    submitted, result = asyncio.run(talk())
    assert (submitted.fate, submitted.turn_id, submitted.duplicate) == ("opened", result.turn_id, False)
    assert result.answer == "Booked."


def test_a_quiet_event_waits_for_the_next_turn(processes):
    model = Slow(lambda request: answered("Noted." if "disk full" in text_of(request) else "Nothing."))
    runtime = processes.process(model)
    workflow = WORKFLOW(runtime, processes.lane, user="ada")
    kept = asyncio.run(workflow.submit_event("alert", {"what": "disk full"}))
    assert (kept.fate, kept.turn_id) == ("kept", "")
    assert processes.entries(Opened) == []
    assert processes.ask(runtime, "What is new?").answer == "Noted."


def test_a_steer_without_a_running_turn_is_refused(processes):
    runtime = processes.process(MemoryModelClient(answered("Done.")))
    workflow = WORKFLOW(runtime, processes.lane, user="ada")
    processes.ask(runtime)
    assert asyncio.run(workflow.steer("be brief")).fate == "dropped"
    assert asyncio.run(workflow.stop()).fate == "dropped"


def test_an_event_without_a_request_for_an_answer_is_not_processed(processes):
    runtime = processes.process(MemoryModelClient())
    workflow = WORKFLOW(runtime, processes.lane, user="ada")
    for payload in ({"kind": "stop"}, {"kind": "alert"}, {"kind": "form", "payload": 7}, {"kind": 7}):
        with pytest.raises(InputError):
            asyncio.run(workflow.process(payload))
    assert processes.entries(Inbound) == []
    asyncio.run(workflow.submit_event("alert", message_id="a-1"))
    with pytest.raises(InputError) as caught:
        asyncio.run(workflow.process({"text": "hello", "message_id": "a-1"}))
    assert caught.value.reason == "bad_payload"


def test_no_user_steers_the_conversation_of_another(processes):
    runtime = processes.process(MemoryModelClient(answered("Done.")))
    processes.ask(runtime)
    with pytest.raises(NotFoundError):
        asyncio.run(WORKFLOW(runtime, processes.lane, user="eve").stop())
