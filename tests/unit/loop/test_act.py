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
from tests.support.conversation import LANE, Scene, answered, called, event_types, tool
from tests.support.faulty_log import BusyLog, LosingLog, StaleLog

WRITE = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}


class Stage(Scene):
    """A scene whose agent has one tool of each effect class; `effects` counts what they did, by tool."""

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


def test_actions_run_in_order_and_each_result_stands_before_the_next_begins() -> None:
    stage = Stage()
    stood: list[tuple[int, list[tuple[str, str]]]] = []
    stage.use(
        *(
            tool(name, "pure", lambda c: stood.append((c.iteration, stage.results())) or ToolOutput())
            for name in "abc"
        )
    )
    following = stage.act(stage.round_of("a", "b", "c"))
    assert [results for _, results in stood] == [[], [("a", "ok")], [("a", "ok"), ("b", "ok")]]
    assert (following.route, following.iteration) == ("decide", 1)


@pytest.mark.parametrize(
    ("effect", "entries"),
    [("pure", ["Resulted"]), ("keyed", ["Resulted"]), ("once", ["Started", "Resulted"])],
)
def test_only_an_effect_that_must_not_repeat_is_announced_first(effect: str, entries: list[str]) -> None:
    stage = Stage()
    step = stage.round_of(f"test.{effect}")
    before = stage.tail.n
    stage.act(step)
    assert [kind for batch in stage.kinds()[before:] for kind in batch] == entries
    assert stage.effects == {f"test.{effect}": 1}
    assert stage.state.running == ""


def test_a_result_is_an_event_for_whoever_listens() -> None:
    stage = Stage()
    inbox = stage.listen()
    stage.act(stage.round_of("test.pure"))
    assert event_types(inbox)[-1] == "react.tool.result"


def test_a_written_file_is_in_the_store_before_the_log_names_it_and_again_under_the_same_name() -> None:
    log = LosingLog()
    scene = Scene(called("react.write", WRITE), log=log)
    scene.send()
    step = scene.decide()
    log.lose(True)
    scene.act(step)
    (entry,) = scene.entries(Resulted)
    (body,) = [block.body for block in entry.blocks if block.body]
    assert scene.ports.artifacts.get(body.key) == b"# A"
    assert body.key.startswith(f"out/{LANE.prefix()}/{scene.state.turn}/")


# --- tools that refuse or fail


def test_what_a_tool_refuses_is_a_result_the_model_reads() -> None:
    scene = Scene(called("react.read", {"paths": ["nonsense"]}), answered("done"))
    scene.send()
    scene.run()
    (entry,) = scene.entries(Resulted)
    assert entry.status in ("ok", "error")
    assert "nonsense" in "".join(part.text for part in scene.model.requests[1].content)


def test_a_refused_call_goes_on_with_the_next_action() -> None:
    stage = Stage()
    stage.fails["test.pure"] = ToolError("not today", code="closed_today")
    stage.act(stage.round_of("test.pure", "test.keyed"))
    assert stage.results() == [("test.pure", "error"), ("test.keyed", "ok")]
    assert stage.entries(Resulted)[0].error["code"] == "closed_today"


def test_a_failing_service_propagates_and_leaves_no_result() -> None:
    stage = Stage()
    stage.fails["test.keyed"] = DependencyError("down")
    step = stage.round_of("test.keyed")
    with pytest.raises(DependencyError):
        stage.act(step)
    assert stage.results() == []
    stage.act(step)
    assert (stage.results(), stage.effects["test.keyed"]) == ([("test.keyed", "ok")], 2)


def test_a_tool_that_a_deployment_took_away_in_mid_turn_is_refused_by_name() -> None:
    stage = Stage()
    step = stage.round_of("test.once")
    stage.forget("test.once")
    following = stage.act(step)
    (entry,) = stage.entries(Resulted)
    assert (entry.status, entry.error["code"]) == ("error", "unknown_tool_id")
    assert stage.entries(Started) == []
    assert following.route == "decide"


# --- at most once


def test_a_started_action_that_broke_off_is_never_run_again_and_is_recorded_as_unverified() -> None:
    stage = Stage()
    stage.fails["test.once"] = DependencyError("down in the middle")
    step = stage.round_of("test.once", "test.pure")
    with pytest.raises(DependencyError):
        stage.act(step)
    following = stage.act(step)
    assert stage.results() == [("test.once", "unverified"), ("test.pure", "ok")]
    assert stage.effects["test.once"] == 1
    assert following.route == "decide"


def test_an_unverified_result_tells_the_model_to_look_before_it_asks_again() -> None:
    stage = Stage(answered("I looked."))
    stage.fails["test.once"] = DependencyError("down in the middle")
    step = stage.round_of("test.once")
    with pytest.raises(DependencyError):
        stage.act(step)
    stage.decide(stage.act(step))
    text = "".join(part.text for part in stage.model.requests[0].content)
    assert "unverified" in text
    assert "Check its effect before you ask for it again" in text


def test_a_lost_answer_of_the_announcement_runs_the_action_once() -> None:
    log = LosingLog()
    stage = Stage(log=log)
    step = stage.round_of("test.once")
    log.lose(True, True)
    stage.act(step)
    assert (stage.results(), stage.effects["test.once"]) == ([("test.once", "ok")], 1)


@pytest.mark.parametrize("lag", [1, 2, 3, 4])
def test_reads_that_lag_behind_run_no_action_twice(lag: int) -> None:
    log = StaleLog(lag=0)
    stage = Stage(log=log)
    step = stage.round_of("test.once", "test.pure", "test.once")
    log.lag = lag
    stage.act(step)
    assert stage.results() == [("test.once", "ok"), ("test.pure", "ok"), ("test.once", "ok")]
    assert stage.effects == {"test.once": 2, "test.pure": 1}


def test_a_second_attempt_that_reads_late_settles_what_the_first_one_started() -> None:
    log = StaleLog(lag=0)
    stage = Stage(log=log)
    stage.fails["test.once"] = DependencyError("down in the middle")
    step = stage.round_of("test.once")
    with pytest.raises(DependencyError):
        stage.act(step)
    log.lag = 1
    stage.act(step)
    assert (stage.results(), stage.effects["test.once"]) == ([("test.once", "unverified")], 1)


def test_an_announcement_that_took_long_is_made_again_before_the_effect() -> None:
    log = BusyLog()
    stage = Stage(log=log)
    step = stage.round_of("test.once")
    log.rivals = [lambda: stage.clock.pause(stage.ports.policy.started_fresh_s + 1)]
    stage.act(step)
    assert len(stage.entries(Started)) == 2
    assert (stage.results(), stage.effects["test.once"]) == ([("test.once", "ok")], 1)


def test_of_two_attempts_at_once_one_runs_the_action() -> None:
    log = BusyLog()
    stage = Stage(log=log)
    step = stage.round_of("test.once")
    log.rivals = [lambda: stage.act(step)]
    stage.act(step)
    assert stage.effects["test.once"] == 1
    assert len(stage.results()) == 1


def test_a_turn_taken_over_in_mid_action_marks_it_and_its_old_owner_records_nothing() -> None:
    stage = Stage()
    stage.use(
        tool("test.slow", "once", lambda _: replace_owner(stage.ports, LANE, stage.tail) and ToolOutput())
    )
    assert stage.act(stage.round_of("test.slow")).route == "stop"
    assert stage.results() == []
    stage.act(stage.now())
    assert stage.results() == [("test.slow", "unverified")]


# --- retries


def test_a_retry_of_a_round_that_was_done_goes_on_from_there() -> None:
    stage = Stage()
    step = stage.round_of("test.once")
    first = stage.act(step)
    assert stage.act(step) == first
    assert stage.effects["test.once"] == 1


def test_a_retry_goes_on_with_the_action_that_has_no_result() -> None:
    stage = Stage()
    stage.fails["test.keyed"] = DependencyError("down")
    step = stage.round_of("test.pure", "test.keyed")
    with pytest.raises(DependencyError):
        stage.act(step)
    stage.act(step)
    assert stage.effects == {"test.pure": 1, "test.keyed": 2}


def test_an_execution_of_before_runs_nothing() -> None:
    stage = Stage()
    step = stage.round_of("test.pure")
    replace_owner(stage.ports, LANE, stage.tail)
    assert stage.act(step).route == "stop"
    assert stage.effects == {}


def test_a_message_that_slips_in_moves_the_result_and_runs_nothing_again() -> None:
    log = BusyLog()
    stage = Stage(log=log)
    step = stage.round_of("test.pure")
    log.rivals = [lambda: stage.send("wait", id="second")]
    stage.act(step)
    assert (stage.effects["test.pure"], stage.kinds()[2:]) == (1, [["Inbound"], ["Resulted"]])


# --- plans


def test_a_plan_is_made_by_a_call_and_acknowledged_by_the_notes_of_later_rounds() -> None:
    scene = Scene(
        called("react.plan", {"steps": ["look", "tell"]}),
        called("react.read", {"paths": ["nonsense"]}, notes="✓ [1] looked\n… [2] telling"),
        answered("told"),
    )
    scene.send()
    scene.run()
    (made,) = scene.entries(Resulted)[0].plans
    assert (made.steps, dict(made.status)) == (("look", "tell"), {"1": "pending", "2": "pending"})
    acknowledged = scene.entries(Decided)[1].plan
    assert acknowledged.plan_id == made.plan_id
    assert dict(acknowledged.status) == {"1": "done", "2": "in_progress"}
    assert scene.entries(Decided)[0].plan is None


def test_the_round_that_changes_plans_acknowledges_none() -> None:
    scene = Scene(
        called("react.plan", {"steps": ["look"]}),
        called("react.plan", {"steps": ["another"]}, notes="✓ [1] looked"),
        answered("done"),
    )
    scene.send()
    scene.run()
    assert [entry.plan for entry in scene.entries(Decided)[:2]] == [None, None]
