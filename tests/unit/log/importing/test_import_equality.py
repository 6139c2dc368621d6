"""An exported conversation that is imported is equal when exported again, and read equal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given

from stepline.log.importing.foreign_value import Findings
from stepline.log.importing.import_document import Document, read_document
from stepline.log.importing.import_state import ImportState
from stepline.log.importing.plan_import import named_files
from stepline.log.transition import declined
from stepline.model.block import Block, Produced
from stepline.model.decision import Action, Declined, Notice
from stepline.model.entry import ApprovalAnswered, Closed, Contributed, Decided, Feedback, Titled
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.source import Citation, Source
from stepline.model.usage import ModelCall, Usage
from stepline.timeline.export import TIMELINE_KIND, TURN_LOG
from stepline.timeline.fold import Timeline
from tests.support.conversation import Conversation
from tests.support.exported_log import (
    THERE,
    USER,
    documents_of,
    log_of,
    moved,
    read_everywhere,
    settled,
    tidied,
    told,
)
from tests.support.generation import answered, called
from tests.support.log_builder import LogBuilder, logs, patient

PAGE = Source(sid=2, title="A page", url="https://a.example/x", text="t", query_relevance=0.5)
PICTURE = Attachment(filename="a dot.png", mime="image/png", size_bytes=70, sha256="a" * 64)


def assert_moves(timeline: Timeline) -> Timeline:
    """Move a conversation, assert that its export is equal, and return the moved one."""
    plan = moved(documents_of(timeline))
    there = log_of(plan)
    assert told(there) == told(timeline)
    return there


def rich() -> LogBuilder:
    """Return a log with entries that generated ones lack: plans, sources, files, titles, refusals."""
    log = LogBuilder()
    log.message("draw it", attachments=(PICTURE,), payload={"where": "page 3"}, source="shop")
    plan = log.plan("find", "draw")
    log.act(
        ("web_tools.web_search", {"queries": ["x"], "content": "y" * 9_000}), ("react.plan", {"mode": "new"})
    )
    log.result("1 hit", tool="web_tools.web_search", sources=(PAGE,), duration_ms=12)
    log.result('{"ok":true}', tool="react.plan", plans=(plan,))
    changed = log.plan("find", "draw", status={"1": "done", "2": "pending"})
    cited = (Citation(sid=2, title="A page", url="https://a.example/x"),)
    log.act(("exec_tools.run", {}), plan=changed, notes="see [[S:2]]", citations=cited, model="m-1")
    log.result("", blocks=(log.file("chart.png"), log.file("data.csv", visibility="internal")), program=True)
    log.put(log.state, Titled(title="A chart", at=log.at, turn=log.turn, text="the gate said: a chart"))
    log.answer("Here [[S:2]].", summary="Goal: a chart", citations=cited)
    log.close()
    log.rate("turn_0001", "ok", "nice", confidence=0.5, given_at="2026-11-21T11:00:00.000Z")
    log.rate("turn_0001", None, "", origin="machine")
    log.message("waits", event="alert", reactive=False, attachments=(PICTURE,))
    log.message("and?")
    log.answer("So.", model="m-2")
    log.close()
    log.message("", event="steer")
    log.message("waits still", event="alert", reactive=False)
    return log


@patient
@given(logs(forgetting=True))
def test_an_exported_conversation_is_imported_equal_and_complete(log: LogBuilder):
    timeline = settled(log).timeline()
    assume(timeline.turns)
    plan = moved(documents_of(timeline))
    assert told(log_of(plan)) == told(timeline)
    assert (plan.report.changed, plan.report.left_out, plan.report.origin) == ({}, {}, "stepline")


@patient
@given(logs(forgetting=True))
def test_the_model_reads_the_same_timeline_after_hiding_pruning_and_compaction(log: LogBuilder):
    given_feedback = any(isinstance(entry, Feedback) for batch in log.batches for entry in batch.entries)
    assume(not given_feedback)  # shown at the end, and in its turn from the next cold cache on
    timeline = settled(log).timeline()
    assume(timeline.turns)
    there = read_everywhere(moved(documents_of(timeline)))
    assert [piece.text for piece in there.pieces] == [piece.text for piece in timeline.pieces]


@patient
@given(logs(forgetting=True))
def test_a_moved_conversation_moves_again(log: LogBuilder):
    timeline = settled(log).timeline()
    assume(timeline.turns)
    once = moved(documents_of(timeline))
    again = moved(documents_of(log_of(once)))
    assert told(log_of(again)) == told(timeline)


@patient
@given(logs(forgetting=True))
def test_an_open_turn_is_closed_by_the_import_and_reported(log: LogBuilder):
    timeline = tidied(log).timeline()
    assume(timeline.current is not None)
    plan = moved(documents_of(timeline))
    there = read_everywhere(plan)
    assert (there.current, there.turns) == (None, timeline.turns)
    assert isinstance(plan.batches[-1].entries[0], Closed)
    assert (there.history[-1].outcome, plan.report.changed) == ("error", {"imported_open": 1})


def test_an_import_restores_plans_sources_files_titles_and_queued_events():
    timeline = rich().timeline()
    there = assert_moves(timeline)
    assert (there.title, there.turns) == ("A chart", timeline.turns)
    assert there.sources == timeline.sources
    assert there.plans == timeline.plans
    assert [event.inbound.text for event in there.events_since(0)] == ["waits", "waits still"]


def test_a_real_conversation_moves_with_its_summary_and_its_title():
    talk = Conversation(called("react.write", {"path": "a.md", "content": "# A"}), answered("Done."))
    talk.send("write it down")
    talk.run()
    there = assert_moves(talk.timeline())
    assert there.resolve(f"fi:{there.turns[0]}.outputs/a.md")


def test_imported_files_get_keys_of_the_new_conversation():
    documents = documents_of(rich().timeline())
    there = log_of(moved(documents, files={"a" * 64: 70}))
    bodies = [block.body for block in there.blocks() if block.body]
    assert {body.key for body in bodies} == {attachment_key(THERE, body.sha256) for body in bodies}
    assert {file.sha256 for file in named_files(documents)} == {"a" * 64, "0" * 64}


def test_a_file_without_bytes_keeps_its_path_and_is_marked_missing():
    timeline = rich().timeline()
    plan = moved(documents_of(timeline), files={})
    there = read_everywhere(plan)
    assert not [block for block in there.blocks() if block.body]
    for path in ("fi:turn_0001.user.attachments/a dot.png", "fi:turn_0001.outputs/chart.png"):
        (block,) = there.resolve(path)
        assert (block.meta["bytes"], block.meta["size_bytes"]) == (
            "missing",
            timeline.resolve(path)[-1].body.size_bytes,
        )
        assert block.text
    assert (plan.report.files, plan.report.changed["bytes_missing"]) == (0, 4)
    assert [turn.id for turn in there.history] == [turn.id for turn in timeline.history]


@pytest.mark.parametrize("there", ["0", "1"])
def test_files_keep_their_paths_when_the_bytes_of_others_are_missing(there: str):
    log = LogBuilder()
    one, other = (Attachment(filename="a.txt", mime="text/plain", size_bytes=1, sha256=d * 64) for d in "01")
    log.message("see", attachments=(one, other))
    log.message("and this", event="followup", attachments=(one, other))
    log.answer("done")
    log.close()
    moved_log = read_everywhere(moved(documents_of(log.timeline()), files={there * 64: 1}))
    for place in ("user.attachments/", "external.followup.attachments/m2/"):
        for name, digit in (("a.txt", "0"), ("a-2.txt", "1")):
            block = moved_log.resolve(f"fi:turn_0001.{place}{name}")[-1]
            assert bool(block.body) == (digit == there)
            assert (block.body.sha256 if block.body else block.meta["sha256"]) == digit * 64


def test_the_report_counts_available_and_missing_files():
    plan = moved(documents_of(rich().timeline()), files={"a" * 64: 70, "f" * 64: 1})
    assert (plan.report.files, plan.report.files_missing, plan.stored) == (1, 1, {"a" * 64: 70})
    assert plan.report.sources == 1
    assert plan.report.kept["user.prompt"] == 2


def test_an_import_belongs_to_the_importing_user_and_costs_nothing():
    log = rich()
    spent = (ModelCall(role="r", model="m", usage=Usage(input_tokens=5), nanos=7, priced=True, id="c1"),)
    log.batches[-1] = msgspec.structs.replace(log.batches[-1], calls=spent)
    plan = moved(documents_of(log.timeline()))
    last = plan.batches[-1].state
    assert (last.owner, last.spent_nanos, last.input_tokens, last.stored_bytes) == (USER, 0, 0, 0)
    assert all(batch.state.owner == USER and not batch.calls for batch in plan.batches)
    assert log_of(plan).usage == Usage()
    senders = {
        e.user for b in plan.batches for e in b.entries if hasattr(e, "message_id") and hasattr(e, "user")
    }
    assert senders == {USER}


def test_an_import_is_incomplete_until_its_last_batch():
    plan = moved(documents_of(rich().timeline()))
    assert [batch.n for batch in plan.batches] == list(range(1, len(plan.batches) + 1))
    assert {batch.state.importing for batch in plan.batches[:-1]} == {1}
    assert plan.batches[-1].state.importing == 0
    assert {(batch.by, batch.step) for batch in plan.batches} == {(plan.digest[:16], "import")}


def test_the_same_documents_are_the_same_import_in_any_order_and_others_are_not():
    documents = documents_of(rich().timeline())
    one, other = moved(documents), moved(documents[::-1])
    assert (one.digest, one.batches) == (other.digest, other.batches)
    documents[1].payload["sources_pool"][0]["title"] = "Another page"
    assert moved(documents).digest != one.digest


def test_an_approval_does_not_move():
    log = LogBuilder()
    log.message("go")
    log.act(("react.read", {}))
    entry = {
        "n": 2,
        "turn": log.turn,
        "at": log.at,
        "iteration": 0,
        "call_id": log.call(),
        "tool_id": "react.read",
    }
    edited = Action(call_id="tc_00000000000e", tool_id="react.read", params={"path": "b"}, code="1")
    about: dict[str, Any] = {**entry, "verdict": "edited", "requested_at": log.at, "message_id": "m9"}
    log.put(log.state, ApprovalAnswered(**about, action=edited))
    log.result("fine", call_id="tc_00000000000e")
    log.answer("done")
    log.close()
    assert log.timeline().allowed == ("react.read",)
    there = assert_moves(log.timeline())
    assert there.allowed == ()
    assert moved(documents_of(log.timeline())).report.changed == {"approval": 1}


def test_a_round_that_was_declined_moves():
    log = LogBuilder()
    log.message("go")
    entry = log.decision(accepted=False, action="exit", declined=Declined(fallback=True))
    log.put(declined(log.state, log.n, rendered=log.n - 1, fallback=True), entry)
    log.answer("done", notices=(Notice(code="late", message="Late.", extra={"n": 1.5, "list": [None]}),))
    log.close()
    assert_moves(log.timeline())


def test_an_answer_of_the_runtime_keeps_its_reason():
    log = LogBuilder()
    log.message("go")
    log.answer("So far.", ended="max_iterations")
    log.close()
    (decided,) = [
        one
        for batch in moved(documents_of(log.timeline())).batches
        for one in batch.entries
        if isinstance(one, Decided)
    ]
    assert decided.ended == "max_iterations"


def test_citations_are_the_rows_of_the_pool_in_short_form():
    state = ImportState(lane=THERE, user=USER, pool={2: PAGE}, findings=Findings(), files={})
    assert state.citations([2, 3, 2]) == (Citation(sid=2, title="A page", url="https://a.example/x"),)


def test_blocks_of_a_bundle_hook_are_imported():
    log = LogBuilder()
    log.message("go")
    said = (Produced(type="stage.mood", path=f"ar:{log.turn}.system.message.mood", text="calm"),)
    log.put(log.state, Contributed(turn=log.turn, at=log.at, blocks=said, hook="pre_run_hook"))
    log.answer("done")
    log.close()
    assert_moves(log.timeline())


def test_the_kind_of_a_document_is_inferred_from_its_keys():
    documents = documents_of(rich().timeline())
    read = [read_document(msgspec.json.encode(one.payload), "a file") for one in documents]
    assert [one.kind for one in read] == [one.kind for one in documents]
    whole = read_document(msgspec.json.encode({"kind": TURN_LOG, "payload": {}, "tags": []}), "a file")
    assert whole == Document(kind=TURN_LOG, payload={}, name="a file")


def test_one_turn_alone_can_be_imported():
    documents = [one for one in documents_of(rich().timeline()) if one.kind != TIMELINE_KIND]
    there = log_of(moved(documents[-1:]))
    assert len(there.turns) == 1
    assert there.current is None


@pytest.mark.parametrize("kind", ["prompt", "alert"])
def test_imported_feedback_keeps_its_position(kind: str):
    log = LogBuilder()
    log.message("go", event=kind, reactive=True)
    log.answer("done")
    log.close()
    log.put(log.state, Feedback(turn="turn_0001", at=log.at, reaction="not_ok", text="no"))
    there = assert_moves(log.timeline())
    (block,) = there.resolve("ar:turn_0001.feedback.latest")
    assert isinstance(block, Block)
    assert '"not_ok"' in block.text
