"""A bundle's turns in this process: the same over the memory twins and over AWS's adapters."""

import asyncio
import dataclasses
import threading

import msgspec
import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import Fail, MemoryModelClient
from stepline.bundle.workflow import BaseWorkflow
from stepline.errors import DependencyError, Fenced, InputError, ModelRefused, ModelTimeout, NotFoundError
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Closed,
    Contributed,
    Reopened,
    Resulted,
    TakenOver,
)
from tests.contract.workflow_processes import WAIT_S, Crash, Slow, WorkflowProcesses
from tests.support.conversation import text_of
from tests.support.generation import answered, called

SEARCH = called("web_tools.web_search", {"queries": "prompt caching"})


@pytest.fixture
def processes(backend, lane):
    return WorkflowProcesses(backend, lane)


def test_a_message_is_answered_from_the_tools_results(processes):
    model = MemoryModelClient(SEARCH, answered("It is kept [[S:1]].", suggested_followups=["For how long?"]))
    result = processes.ask(processes.process(model))
    model.assert_read()
    assert (result.outcome, result.reason, result.rounds) == ("completed", "complete", 2)
    assert result.answer == "It is kept [[S:1]]."
    assert result.followups == ("For how long?",)
    assert [source.sid for source in result.sources] == [1]
    assert result.usage.prompt_tokens > 0
    (closed,) = processes.entries(Closed)
    assert closed.turn == result.turn_id


def test_no_state_machine_hears_of_it(processes):
    processes.ask(processes.process(MemoryModelClient(answered("Done."))))
    if processes.backend.machine.__class__.__name__ == "MemoryMachine":
        assert processes.backend.machine.queue == []
        return
    found = processes.backend.machine.client.list_executions(stateMachineArn=processes.backend.machine_arn)
    assert found["executions"] == []


def test_the_next_message_is_another_turn_of_the_conversation(processes):
    runtime = processes.process(MemoryModelClient(answered("One."), answered("Two.")))
    first, second = processes.ask(runtime, "first"), processes.ask(runtime, "second")
    assert (first.answer, second.answer) == ("One.", "Two.")
    assert first.turn_id != second.turn_id


def test_a_message_that_is_sent_again_gets_the_answer_it_got(processes):
    model = MemoryModelClient(answered("Once."))
    runtime = processes.process(model)
    first = processes.ask(runtime, message_id="m-1")
    assert processes.ask(runtime, message_id="m-1") == first
    assert processes.ask(processes.process(model), message_id="m-1") == first


def test_a_step_that_fails_for_now_is_tried_again_as_the_graph_says(processes):
    late = Fail(error=ModelTimeout("late"))
    model = MemoryModelClient(*[late] * 6, answered("At last."))
    result = processes.ask(processes.process(model))
    model.assert_read()
    assert result.answer == "At last."
    assert [entry.attempt for entry in processes.entries(Reopened)] == [1, 2]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelRefused("no"), "model_refused"),
        (DependencyError("away"), "step_failed"),
        (ZeroDivisionError(), "step_failed"),
    ],
)
def test_a_step_that_fails_for_good_ends_the_turn_with_its_code(processes, error, code):
    model = MemoryModelClient(*[Fail(error=error)] * 9)
    result = processes.ask(processes.process(model))
    assert (result.outcome, result.code, result.answer) == ("error", code, "")
    assert (
        processes.ask(processes.process(MemoryModelClient(answered("Well again.")))).answer == "Well again."
    )


def test_a_resent_message_takes_over_the_turn_of_a_dead_process(processes):
    model = MemoryModelClient(SEARCH, Fail(error=Crash()), answered("After all [[S:1]]."))
    with pytest.raises(Crash):
        processes.ask(processes.process(model), message_id="m-1")
    result = processes.ask(processes.process(model), message_id="m-1")
    model.assert_read()
    assert (result.answer, result.rounds) == ("After all [[S:1]].", 2)
    assert [entry.takeovers for entry in processes.entries(TakenOver)] == []


def test_the_next_message_takes_over_the_turn_of_a_crash(processes):
    model = MemoryModelClient(Fail(error=Crash()), answered("To both of you."))
    runtime = processes.process(model)
    with pytest.raises(Crash):
        processes.ask(runtime, "first", message_id="m-1")
    result = processes.ask(runtime, "second", message_id="m-2")
    assert result.answer == "To both of you."
    assert len(processes.entries(TakenOver)) == 1
    assert processes.ask(runtime, "first", message_id="m-1") == result


def test_a_payload_names_its_users_time_zone_and_the_model_reads_it(processes):
    model = MemoryModelClient(answered("It is late."))
    runtime = processes.process(model)
    processes.ask(runtime, timezone="Asia/Kathmandu")
    assert "user_timezone: Asia/Kathmandu\nuser_local_time: " in model.requests[-1].content[-1].text
    for zone in ("Mars/Olympus", 7):
        with pytest.raises(InputError) as caught:
            processes.ask(runtime, timezone=zone)
        assert caught.value.reason == "bad_timezone"


def test_an_invalid_message_or_a_foreign_conversation_is_refused(processes):
    runtime = processes.process(MemoryModelClient(answered("Hello.")))
    for payload in ({"text": " "}, {"text": 7}, {"message_id": "bad id", "text": "hello"}):
        with pytest.raises(InputError) as caught:
            processes.ask(runtime, **{"text": "", **payload})
        assert caught.value.reason in ("bad_payload", "bad_message_id")
    processes.ask(runtime)
    with pytest.raises(NotFoundError):
        processes.ask(runtime, user="eve")


# --- several at once


def test_conversations_run_side_by_side(backend, lane):
    worlds = [
        WorkflowProcesses(backend, lane.__class__(lane.tenant, lane.project, f"{lane.conversation}-{n}"))
        for n in range(3)
    ]
    together = threading.Barrier(3)

    def say(request):
        together.wait(WAIT_S)
        return answered(next(word for word in ("one", "two", "three") if f"say {word}" in text_of(request)))

    runtime = worlds[0].process(Slow(say))

    async def talk():
        asked = zip(worlds, ("one", "two", "three"), strict=True)
        return await asyncio.gather(
            *(WORKFLOW(runtime, w.lane, user="ada").process({"text": f"say {word}"}) for w, word in asked)
        )

    assert [result.answer for result in asyncio.run(talk())] == ["one", "two", "three"]


def test_a_message_to_a_turn_that_runs_is_answered_with_it(processes):
    asked, go_on = threading.Event(), threading.Event()

    def say(request):
        asked.set()
        assert go_on.wait(WAIT_S)
        return answered("To both." if "and the second" in text_of(request) else "To the first.")

    runtime = processes.process(Slow(say))

    async def talk():
        first = asyncio.create_task(
            WORKFLOW(runtime, processes.lane, user="ada").process({"text": "the first"})
        )
        await asyncio.to_thread(asked.wait, WAIT_S)
        second = asyncio.create_task(
            WORKFLOW(runtime, processes.lane, user="ada").process({"text": "and the second"})
        )
        for _ in range(2):
            await asyncio.to_thread(processes.log.entered.get, timeout=WAIT_S)
        go_on.set()
        return await asyncio.gather(first, second)

    first, second = asyncio.run(talk())
    assert first.answer == "To both."
    assert second == first


def test_a_turn_that_another_process_took_is_given_up_here(processes):
    asked, go_on = threading.Event(), threading.Event()

    def slow(request):
        asked.set()
        assert go_on.wait(WAIT_S)
        return answered("Too late.")

    over = threading.Event()

    def later(_):
        go_on.set()
        assert over.wait(WAIT_S)
        return answered("From elsewhere.")

    here, there = processes.process(Slow(slow)), processes.process(Slow(later))

    async def talk():
        first = asyncio.create_task(WORKFLOW(here, processes.lane, user="ada").process({"text": "the first"}))
        await asyncio.to_thread(asked.wait, WAIT_S)
        second = asyncio.create_task(
            WORKFLOW(there, processes.lane, user="ada").process({"text": "the second"})
        )
        with pytest.raises(Fenced):
            await first
        over.set()
        return await second

    assert asyncio.run(talk()).answer == "From elsewhere."


# --- the context


class Prepared(BaseWorkflow):
    """Puts something on the timeline before the model is asked, and announces something else."""

    tools_module = "bundles.default.tools_descriptor"

    async def process(self, payload):
        self.ctx_browser.announce([{"type": "shop.status", "text": "The shop is closed today."}])
        react = await self.build_react(scratchpad=self.scratchpad)
        return await react.run(payload)

    @staticmethod
    async def pre_run_hook(hook):
        if hook.fetch(f"ar:{hook.turn}.user.prompt")["ret"]["text"] != "And now?":
            hook.contribute([{"text": f"{hook.user} likes short answers."}])
            hook.contribute([{"text": f"{hook.user} likes short answers."}])


def test_contributions_of_a_bundle_stay_and_announcements_do_not(processes):
    model = MemoryModelClient(SEARCH, answered("Short."), answered("Still short."))
    runtime = processes.process(model)
    workflow = Prepared(runtime, processes.lane, user="ada")
    asyncio.run(workflow.process({"text": "Who am I?"}))
    first, second = ([part.text for part in request.content] for request in model.requests)
    assert "ada likes short answers." in "".join(first[:-1])
    assert "The shop is closed today." in first[-1]
    assert "The shop is closed today." in second[-1]
    assert not any(part.cache for request in model.requests for part in request.content[-1:])
    (entry,) = processes.entries(Contributed)
    (path,) = (block.path for block in entry.blocks)
    fetched = asyncio.run(workflow.ctx_client.fetch_ctx(path))
    assert fetched == {"path": path, "ret": {"mime": "text/markdown", "text": "ada likes short answers."}}
    processes.ask(runtime, "And now?")
    last = text_of(model.requests[-1])
    assert "ada likes short answers." in last
    assert "The shop is closed today." not in last


def test_blocks_contributed_during_a_turn_are_stored_once_and_read_from_the_next_round(processes):
    class Knowing(BaseWorkflow):
        async def process(self, payload):
            react = await self.build_react(knowledge_space_fn=self.search, knowledge_read_fn=self.search)
            return await react.run(payload)

        async def search(self, query, limit):
            added = [await self.ctx_browser.contribute([{"text": "Ada likes tea."}]) for _ in range(2)]
            assert added[0] == added[1]
            return []

    model = MemoryModelClient(called("react.search_knowledge", {"query": "tea"}), answered("Tea it is."))
    workflow = Knowing(processes.process(model), processes.lane, user="ada")
    assert asyncio.run(workflow.process({"text": "What do I like?"})).answer == "Tea it is."
    (entry,) = processes.entries(Contributed)
    assert [block.text for block in entry.blocks] == ["Ada likes tea."]
    first, second = map(text_of, model.requests)
    assert "Ada likes tea." not in first
    assert "Ada likes tea." in second


def test_an_answered_message_prepares_nothing(processes):
    model = MemoryModelClient(answered("Once."))
    first = processes.ask(processes.process(model), workflow=Prepared, message_id="m-1")
    assert processes.ask(processes.process(model), workflow=Prepared, message_id="m-1") == first
    assert len(processes.entries(Contributed)) == 1


def test_a_bundle_adds_nothing_to_a_turn_that_is_not_open(processes):
    workflow = WORKFLOW(processes.process(MemoryModelClient(answered("Done."))), processes.lane, user="ada")
    for _ in range(2):
        with pytest.raises(InputError) as caught:
            asyncio.run(workflow.ctx_browser.contribute([{"text": "x"}]))
        assert caught.value.reason == "turn_not_open"
        asyncio.run(workflow.process({"text": "hello", "message_id": "m-1"}))


def test_a_hook_that_fails_ends_the_turn_and_says_so_to_its_caller(processes):
    class Broken(Prepared):
        @staticmethod
        def pre_run_hook(_):
            raise ZeroDivisionError

    result = processes.ask(processes.process(MemoryModelClient()), workflow=Broken)
    assert (result.outcome, result.code) == ("error", "hook_failed")
    (closed,) = processes.entries(Closed)
    assert closed.code == "hook_failed"


def test_a_hook_after_the_close_may_send_an_event_to_its_conversation(processes):
    standings = []

    class Follows(BaseWorkflow):
        @staticmethod
        async def post_run_hook(hook):
            workflow = WORKFLOW(runtime, hook.lane, user=hook.user)
            standings.append(await workflow.submit_event("shop_closed", {"turn": hook.turn}))

    runtime = processes.process(MemoryModelClient(answered("Done.")))
    assert processes.ask(runtime, workflow=Follows).answer == "Done."
    assert [one.fate for one in standings] == ["kept"]


class TestApproval:
    """A call that waits for a person, in a process: the same rows as in functions."""

    @pytest.fixture
    def asking(self, processes):
        settings = msgspec.structs.replace(processes.app.settings, approvals={"web_tools.*": "always"})
        processes.app = dataclasses.replace(processes.app, settings=settings)
        return processes

    def answer(self, processes, runtime, *said, **fields):
        return asyncio.run(WORKFLOW(runtime, processes.lane, user="ada").answer(*said, **fields))

    def test_a_parked_turn_continues_in_another_process_with_the_answer(self, asking):
        first = asking.ask(asking.process(MemoryModelClient(SEARCH)))
        assert (first.outcome, first.approval.tool_id) == ("parked", "web_tools.web_search")
        later = asking.process(MemoryModelClient(answered("It is kept [[S:1]].")))
        result = self.answer(asking, later, "approved", first.approval.call_id)
        assert (result.outcome, result.answer, result.turn_id) == (
            "completed",
            "It is kept [[S:1]].",
            first.turn_id,
        )
        assert [len(asking.entries(kind)) for kind in (ApprovalRequested, ApprovalAnswered, Resulted)] == [
            1
        ] * 3
        assert asking.entries(TakenOver) == []

    def test_a_message_to_a_parked_turn_waits_with_it(self, asking):
        model = MemoryModelClient(SEARCH, answered("To both."))
        runtime = asking.process(model)
        first = asking.ask(runtime, "first")
        second = asking.ask(runtime, "second")
        assert second == first
        result = self.answer(asking, runtime, "denied", first.approval.call_id, text="No.", message_id="a-1")
        assert result.answer == "To both."
        assert "second" in text_of(model.requests[-1])
        assert self.answer(asking, runtime, "denied", first.approval.call_id, message_id="a-1") == result

    def test_an_answer_to_nothing_is_refused(self, asking):
        runtime = asking.process(MemoryModelClient(answered("Done.")))
        asking.ask(runtime)
        with pytest.raises(InputError) as refused:
            self.answer(asking, runtime, "approved", "tc_0123456789ab")
        assert refused.value.reason == "approval_not_pending"
