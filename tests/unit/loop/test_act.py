from collections import Counter
from typing import Any

import pytest

from stepline.errors import DependencyError, ToolError
from stepline.loop.attempt import Attempt
from stepline.loop.decide import decide
from stepline.loop.stream_generation import Sample
from stepline.loop.sweep import replace_owner
from stepline.model.decision import Action
from stepline.model.entry import Decided, Resulted, Started
from stepline.model.ids import call_id
from stepline.model.step import Step
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, Conversation, event_types, text_of, tool
from tests.support.faulty_log import BusyLog, LosingLog, StaleLog
from tests.support.generation import answered, called

WRITE = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}


class EffectConversation(Conversation):
    """A conversation whose agent has one tool of each effect class; `effects` counts their runs, by tool."""

    def __init__(self, *script: Any, **fields: Any) -> None:
        super().__init__(*script, **fields)
        self.effects: Counter[str] = Counter()
        self.fails: dict[str, Exception] = {}
        names: list[Any] = ["pure", "keyed", "once"]
        self.use(*(tool(f"test.{name}", name, self._strike(f"test.{name}")) for name in names))

    def _strike(self, name: str) -> Any:
        def run(context: ToolContext) -> ToolOutput:
            self.effects[name] += 1
            if name in self.fails:
                raise self.fails.pop(name)
            return ToolOutput(blocks=(context.result(name, {"status": "ok"}),))

        return run

    def round_of(self, *tools: str) -> Step:
        """Decide on these tools, all in one round; return the step that runs them."""
        if not self.tail.n:
            self.send()

        def sampler(attempt: Attempt, _: Timeline) -> Sample:
            step = attempt.step
            actions = tuple(
                Action(call_id=call_id(step.turn, step.iteration, i), tool_id=name, params={})
                for i, name in enumerate(tools)
            )
            entry = Decided(
                iteration=step.iteration,
                claim=attempt.claim,
                action="call_tool",
                started_at="",
                actions=actions,
            )
            return Sample(decision=entry)

        return decide(self.ports, self.agent, self.model, self.history, self.now(), sampler=sampler)

    def results(self) -> list[tuple[str, str]]:
        return [(entry.tool_id, entry.status) for entry in self.entries(Resulted)]


def test_each_result_is_in_the_log_before_the_next_action_begins() -> None:
    conversation = EffectConversation()
    seen: list[tuple[int, list[tuple[str, str]]]] = []
    conversation.use(
        *(
            tool(name, "pure", lambda c: seen.append((c.iteration, conversation.results())) or ToolOutput())
            for name in "abc"
        )
    )
    following = conversation.act(conversation.round_of("a", "b", "c"))
    assert [results for _, results in seen] == [[], [("a", "ok")], [("a", "ok"), ("b", "ok")]]
    assert (following.route, following.iteration) == ("decide", 1)


@pytest.mark.parametrize(
    ("effect", "entries"),
    [("pure", ["Resulted"]), ("keyed", ["Resulted"]), ("once", ["Started", "Resulted"])],
)
def test_only_an_unrepeatable_effect_is_announced_first(effect: str, entries: list[str]) -> None:
    conversation = EffectConversation()
    step = conversation.round_of(f"test.{effect}")
    before = conversation.tail.n
    conversation.act(step)
    assert [kind for batch in conversation.kinds()[before:] for kind in batch] == entries
    assert conversation.effects == {f"test.{effect}": 1}
    assert conversation.state.running == ""


def test_a_result_is_an_event_for_listeners() -> None:
    conversation = EffectConversation()
    inbox = conversation.listen()
    conversation.act(conversation.round_of("test.pure"))
    assert event_types(inbox)[-1] == "react.tool.result"


def test_a_written_file_is_in_the_store_before_the_log_names_it_and_again_under_the_same_name() -> None:
    log = LosingLog()
    conversation = Conversation(called("react.write", WRITE), log=log)
    conversation.send()
    step = conversation.decide()
    log.lose(True)
    conversation.act(step)
    (entry,) = conversation.entries(Resulted)
    (body,) = [block.body for block in entry.blocks if block.body]
    assert conversation.ports.artifacts.get(body.key) == b"# A"
    assert body.key.startswith(f"out/{LANE.prefix()}/{conversation.state.turn}/")


# --- tools that refuse or fail


def test_a_tools_refusal_is_a_result_for_the_model() -> None:
    conversation = Conversation(called("react.read", {"paths": ["nonsense"]}), answered("done"))
    conversation.send()
    conversation.run()
    (entry,) = conversation.entries(Resulted)
    assert entry.status in ("ok", "error")
    assert "nonsense" in text_of(conversation.model.requests[1])


def test_the_next_action_runs_after_a_refused_call() -> None:
    conversation = EffectConversation()
    conversation.fails["test.pure"] = ToolError("not today", code="closed_today")
    conversation.act(conversation.round_of("test.pure", "test.keyed"))
    assert conversation.results() == [("test.pure", "error"), ("test.keyed", "ok")]
    assert conversation.entries(Resulted)[0].error["code"] == "closed_today"


def test_a_failing_service_propagates_and_leaves_no_result() -> None:
    conversation = EffectConversation()
    conversation.fails["test.keyed"] = DependencyError("down")
    step = conversation.round_of("test.keyed")
    with pytest.raises(DependencyError):
        conversation.act(step)
    assert conversation.results() == []
    conversation.act(step)
    assert (conversation.results(), conversation.effects["test.keyed"]) == ([("test.keyed", "ok")], 2)


def test_a_tool_removed_in_mid_turn_is_refused_by_name() -> None:
    conversation = EffectConversation()
    step = conversation.round_of("test.once")
    conversation.forget("test.once")
    following = conversation.act(step)
    (entry,) = conversation.entries(Resulted)
    assert (entry.status, entry.error["code"]) == ("error", "unknown_tool_id")
    assert conversation.entries(Started) == []
    assert following.route == "decide"


# --- at most once


def test_a_started_action_that_broke_off_is_never_run_again_and_is_recorded_as_unverified() -> None:
    conversation = EffectConversation()
    conversation.fails["test.once"] = DependencyError("down in the middle")
    step = conversation.round_of("test.once", "test.pure")
    with pytest.raises(DependencyError):
        conversation.act(step)
    following = conversation.act(step)
    assert conversation.results() == [("test.once", "unverified"), ("test.pure", "ok")]
    assert conversation.effects["test.once"] == 1
    assert following.route == "decide"


def test_an_unverified_result_asks_the_model_to_check_before_a_retry() -> None:
    conversation = EffectConversation(answered("I looked."))
    conversation.fails["test.once"] = DependencyError("down in the middle")
    step = conversation.round_of("test.once")
    with pytest.raises(DependencyError):
        conversation.act(step)
    conversation.decide(conversation.act(step))
    text = text_of(conversation.model.requests[0])
    assert "unverified" in text
    assert "Check its effect before you ask for it again" in text


def test_a_lost_answer_of_the_announcement_runs_the_action_once() -> None:
    log = LosingLog()
    conversation = EffectConversation(log=log)
    step = conversation.round_of("test.once")
    log.lose(True, True)
    conversation.act(step)
    assert (conversation.results(), conversation.effects["test.once"]) == ([("test.once", "ok")], 1)


@pytest.mark.parametrize("lag", [1, 2, 3, 4])
def test_lagging_reads_run_no_action_twice(lag: int) -> None:
    log = StaleLog(lag=0)
    conversation = EffectConversation(log=log)
    step = conversation.round_of("test.once", "test.pure", "test.once")
    log.lag = lag
    conversation.act(step)
    assert conversation.results() == [("test.once", "ok"), ("test.pure", "ok"), ("test.once", "ok")]
    assert conversation.effects == {"test.once": 2, "test.pure": 1}


def test_a_late_second_attempt_settles_the_started_action() -> None:
    log = StaleLog(lag=0)
    conversation = EffectConversation(log=log)
    conversation.fails["test.once"] = DependencyError("down in the middle")
    step = conversation.round_of("test.once")
    with pytest.raises(DependencyError):
        conversation.act(step)
    log.lag = 1
    conversation.act(step)
    assert (conversation.results(), conversation.effects["test.once"]) == ([("test.once", "unverified")], 1)


def test_an_announcement_that_took_long_is_made_again_before_the_effect() -> None:
    log = BusyLog()
    conversation = EffectConversation(log=log)
    step = conversation.round_of("test.once")
    log.rivals = [lambda: conversation.clock.pause(conversation.ports.policy.started_fresh_s + 1)]
    conversation.act(step)
    assert len(conversation.entries(Started)) == 2
    assert (conversation.results(), conversation.effects["test.once"]) == ([("test.once", "ok")], 1)


def test_one_of_two_concurrent_attempts_runs_the_action() -> None:
    log = BusyLog()
    conversation = EffectConversation(log=log)
    step = conversation.round_of("test.once")
    log.rivals = [lambda: conversation.act(step)]
    conversation.act(step)
    assert conversation.effects["test.once"] == 1
    assert len(conversation.results()) == 1


def test_a_turn_taken_over_in_mid_action_marks_it_and_its_old_owner_records_nothing() -> None:
    conversation = EffectConversation()
    conversation.use(
        tool(
            "test.slow",
            "once",
            lambda _: replace_owner(conversation.ports, LANE, conversation.tail) and ToolOutput(),
        )
    )
    assert conversation.act(conversation.round_of("test.slow")).route == "stop"
    assert conversation.results() == []
    conversation.act(conversation.now())
    assert conversation.results() == [("test.slow", "unverified")]


# --- retries


def test_a_retry_of_a_completed_round_continues_after_it() -> None:
    conversation = EffectConversation()
    step = conversation.round_of("test.once")
    first = conversation.act(step)
    assert conversation.act(step) == first
    assert conversation.effects["test.once"] == 1


def test_a_retry_continues_with_the_action_without_a_result() -> None:
    conversation = EffectConversation()
    conversation.fails["test.keyed"] = DependencyError("down")
    step = conversation.round_of("test.pure", "test.keyed")
    with pytest.raises(DependencyError):
        conversation.act(step)
    conversation.act(step)
    assert conversation.effects == {"test.pure": 1, "test.keyed": 2}


def test_an_older_execution_runs_nothing() -> None:
    conversation = EffectConversation()
    step = conversation.round_of("test.pure")
    replace_owner(conversation.ports, LANE, conversation.tail)
    assert conversation.act(step).route == "stop"
    assert conversation.effects == {}


def test_a_message_in_between_moves_the_result_without_a_rerun() -> None:
    log = BusyLog()
    conversation = EffectConversation(log=log)
    step = conversation.round_of("test.pure")
    log.rivals = [lambda: conversation.send("wait", id="second")]
    conversation.act(step)
    assert (conversation.effects["test.pure"], conversation.kinds()[2:]) == (1, [["Inbound"], ["Resulted"]])


# --- plans


def test_a_plan_is_made_by_a_call_and_acknowledged_by_the_notes_of_later_rounds() -> None:
    conversation = Conversation(
        called("react.plan", {"steps": ["look", "tell"]}),
        called("react.read", {"paths": ["nonsense"]}, notes="✓ [1] looked\n… [2] telling"),
        answered("told"),
    )
    conversation.send()
    conversation.run()
    (made,) = conversation.entries(Resulted)[0].plans
    assert (made.steps, dict(made.status)) == (("look", "tell"), {"1": "pending", "2": "pending"})
    acknowledged = conversation.entries(Decided)[1].plan
    assert acknowledged.plan_id == made.plan_id
    assert dict(acknowledged.status) == {"1": "done", "2": "in_progress"}
    assert conversation.entries(Decided)[0].plan is None


def test_the_round_that_changes_plans_acknowledges_none() -> None:
    conversation = Conversation(
        called("react.plan", {"steps": ["look"]}),
        called("react.plan", {"steps": ["another"]}, notes="✓ [1] looked"),
        answered("done"),
    )
    conversation.send()
    conversation.run()
    assert [entry.plan for entry in conversation.entries(Decided)[:2]] == [None, None]
