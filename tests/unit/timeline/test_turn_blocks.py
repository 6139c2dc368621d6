"""The blocks after an answer: the totals of the turn, for people and for machines, and the reason of its end."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from stepline.model.entry import Closed, Titled
from stepline.model.path import parse_path
from stepline.model.source import Citation
from stepline.model.usage import Usage
from stepline.timeline.turn_blocks import ending_blocks, render_turn_totals
from tests.support.log_builder import LogBuilder, logs, patient

KINDS = ["react.turn.finalize", "react.state", "react.exit"]


def ended(log: LogBuilder, **fields) -> Closed:
    outcome = {
        "turn": log.turn,
        "outcome": "completed",
        "reason": "complete",
        "at": log.at,
        "answer": "done",
    }
    usage = Usage(input_tokens=100, cache_read_tokens=900, output_tokens=50)
    counts = {
        "usage": usage,
        "rounds": 3,
        "files": 1,
        "elapsed_ms": 12_340,
        "model_ms": 9_000,
        "tools_ms": 1_000,
    }
    return Closed(**{**outcome, **counts, **fields})


def started() -> LogBuilder:
    log = LogBuilder()
    log.message("go")
    return log


def test_the_end_of_a_turn_shows_its_totals_and_open_plan_steps():
    log = started()
    plan = log.plan("look", "write", status={"1": "done", "2": "pending"})
    assert render_turn_totals(ended(log), [plan]) == (
        "╔══ TURN COMPLETED — complete ══╗\n"
        "[BUDGET]\n"
        "rounds  3\n"
        "time_elapsed_in_turn  12.3s (model 9.0s, tools 1.0s)\n"
        "tokens  1000 in (900 cached), 50 out\n"
        "files  1\n"
        "[OPEN PLANS]\n"
        f"plan_id={plan.plan_id} (current)\n"
        "✓ [1] look\n"
        "□ [2] write\n"
    )


def test_a_plan_that_is_over_is_not_left_open_but_in_the_state():
    log = started()
    over = log.plan("look", status={"1": "done"})
    finalize, state, _ = ending_blocks(ended(log), [over])
    assert "[OPEN PLANS]" not in finalize.text
    (row,) = msgspec.json.decode(state.text)["plans"]
    assert (row["plan_id"], row["open"], row["done"], row["steps"]) == (over.plan_id, False, 1, 1)


def test_a_machine_reads_the_same_as_people():
    log = started()
    _, state, leaving = ending_blocks(ended(log, reason="max_iterations"), [])
    facts = msgspec.json.decode(state.text)
    assert (facts["turn_id"], facts["reason"], facts["rounds"], facts["elapsed_ms"]) == (
        *(log.turn, "max_iterations"),
        *(3, 12_340),
    )
    assert facts["usage"] == {
        "input_tokens": 100,
        "cache_read_tokens": 900,
        "cache_write_5m_tokens": 0,
        "cache_write_1h_tokens": 0,
        "output_tokens": 50,
        "estimated": False,
    }
    assert msgspec.json.decode(leaving.text) == {"outcome": "completed", "reason": "max_iterations"}


def test_a_snapshot_of_a_plan_says_whether_it_is_current():
    log = started()
    log.act(("react.plan", {}))
    log.result(
        "made", tool="react.plan", plans=(log.plan("a"), log.plan("b", plan_id="plan:x:0b", current=False))
    )
    plans = [block for block in log.timeline().turn_blocks(log.turn) if block.type == "react.plan"]
    assert [msgspec.json.decode(block.text)["current"] for block in plans] == [True, False]
    assert {block.mime for block in plans} == {"application/json"}


def test_an_answer_that_was_not_the_last_word_has_a_block_with_the_time_of_its_deferral():
    log = started()
    log.answer("one")
    log.message("more")
    deferred = log.defer()
    turn = log.timeline().turn_blocks(log.turn)
    (outcome,) = [block for block in turn if block.type == "assistant.completion.attempt.outcome"]
    assert outcome.ts == deferred.at


def test_an_answer_names_the_sources_it_uses_each_its_own():
    log = started()
    turn = log.turn
    pages = (Citation(sid=1), Citation(sid=3))
    log.answer("one [[S:3]]", rendered=1, citations=pages)
    log.message("more")
    log.defer()
    log.answer("two [[S:1]] and [[S:9]]", citations=pages[:1], unresolved=(9,))
    log.close()
    found = {block.path: block.meta.get("sources_used") for block in log.timeline().turn_blocks(turn)}
    assert found[f"ar:{turn}.assistant.completion.1"] == [3]
    assert found[f"ar:{turn}.assistant.completion"] == [1]
    assert found[f"ar:{turn}.assistant.completion.attempt.1"] == [3]
    assert found[f"ar:{turn}.user.prompt"] is None


def test_a_summary_names_every_turn_that_it_covers():
    log = LogBuilder()
    for _ in range(4):
        log.message()
        log.answer("done")
        log.close()
    log.message()
    history = log.timeline().history
    log.compact(cut=history[3].opened)
    (summary,) = log.timeline().resolve(f"su:{log.turn}.conv.range.summary")
    assert summary.meta["covered_turn_ids"] == [turn.id for turn in history[:3]]


# It was there only after the model had answered, after the events that arrived during the call.
def test_the_start_of_an_open_round_is_on_the_timeline():
    log = started()
    turn, first = log.turn, log.call()
    (begun,) = log.timeline().resolve(f"ar:{turn}.react.round.start.{first}")
    assert (begun.iteration, begun.meta["phase"], begun.ts) == (0, "decision", log.batches[0].at)
    log.message("by the way")
    log.act(("react.read", {"paths": []}))
    assert log.timeline().resolve(f"ar:{turn}.react.round.start.{first}") == (begun,)
    log.result()
    starts = [block for block in log.timeline().turn_blocks(turn) if block.type == "react.round.start"]
    assert [block.iteration for block in starts] == [0, 1]
    kinds = [block.type for block in log.timeline().turn_blocks(turn)]
    assert kinds.index("react.round.start") < kinds.index("user.followup") < kinds.index("react.tool.call")


def test_the_first_decision_of_a_turn_is_the_stage_of_the_agent():
    log = started()
    log.put(log.state, Titled(title="Roses", at=log.at, turn=log.turn, text="Roses in May"))
    log.act(("react.read", {"paths": []}), model="m-1")
    log.result()
    log.answer("done", model="m-1")
    log.close()
    blocks = log.timeline().turn_blocks(log.closed_turns()[0])
    kinds = [block.type for block in blocks]
    assert kinds.count("stage.react") == 1
    assert kinds.index("stage.gate") < kinds.index("stage.react") < kinds.index("react.tool.call")
    (stage,) = [block for block in blocks if block.type == "stage.react"]
    assert (stage.ts, stage.meta) == (log.batches[2].entries[0].started_at, {"model": "m-1"})


@patient
@given(logs())
def test_every_round_starts_once(log: LogBuilder):
    timeline = log.timeline()
    for turn in timeline.history:
        starts = [block for block in timeline.turn_blocks(turn.id) if block.type == "react.round.start"]
        assert [block.iteration for block in starts] == list(range(len(starts)))


def test_a_failed_turn_shows_its_reason_and_code():
    log = started()
    failed = ended(log, outcome="error", reason="error", code="step_failed", answer="", usage=None)
    finalize, _, leaving = ending_blocks(failed, [])
    assert finalize.text.startswith("╔══ TURN FAILED — error ══╗\n")
    assert msgspec.json.decode(leaving.text)["code"] == "step_failed"


def test_only_plans_of_this_turn_are_shown():
    log = started()
    log.act(("react.plan", {}))
    log.result("made", tool="react.plan", plans=(log.plan("look"),))
    log.answer("later")
    log.close()
    log.message("again")
    log.answer("done")
    log.close()
    timeline = log.timeline()
    first, second = (timeline.resolve(f"ar:{turn}.react.turn.finalize")[0].text for turn in timeline.turns)
    assert "□ [1] look" in first
    assert "[OPEN PLANS]" not in second


@patient
@given(logs())
def test_every_turn_that_ended_has_its_end_at_paths_that_can_be_read(log: LogBuilder):
    timeline = log.timeline()
    for turn in timeline.history:
        found = [block for block in timeline.turn_blocks(turn.id) if block.type in KINDS]
        assert [block.type for block in found] == (KINDS if turn.closed else [])
        for block in found:
            assert str(parse_path(block.path)) == block.path
            assert timeline.resolve(block.path) == (block,)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_blocks_after_an_answer_are_not_shown_to_the_model(kind):
    log = started()
    log.answer("done")
    log.close()
    assert not [piece for piece in log.timeline().pieces if kind in piece.path]


def test_a_value_follows_its_answer_at_one_path_and_in_the_prompt():
    log = LogBuilder()
    log.message()
    log.answer("It costs 12.50.", value='{"eur":12.5}')
    log.close()
    path = f"ar:{log.closed_turns()[0]}.assistant.completion"
    (block,) = log.timeline().resolve(path)
    assert block.text == 'It costs 12.50.\n\n```json\n{"eur":12.5}\n```'
    (piece,) = [piece for piece in log.timeline().pieces if piece.kind == "answer"]
    assert '{"eur":12.5}' in piece.text
