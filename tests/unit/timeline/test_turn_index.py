"""The index of a turn, and the generated summary of a turn without one."""

from __future__ import annotations

import re

from hypothesis import given

from stepline.model.path import parse_path
from stepline.model.source import Citation, Source
from stepline.timeline.view import HINT_CHARS, index_path
from tests.support.log_builder import LogBuilder, logs, patient

ROW = re.compile(r"^(?:- .*|    (?:result|newest)): ((?:ar|tc|fi|so|su|ws|sk|ks):\S.*)$", re.MULTILINE)


def index_of(log: LogBuilder, turn: str) -> str:
    (block,) = log.timeline().resolve(index_path(turn))
    return block.text


@patient
@given(logs())
def test_the_index_names_every_path_of_a_turn_and_each_leads_somewhere(log: LogBuilder):
    timeline = log.timeline()
    for turn in timeline.turns:
        named = ROW.findall(index_of(log, turn))
        paths = {block.path for block in timeline.turn_blocks(turn) if block.path}
        assert paths <= set(named)
        assert all(timeline.resolve(path) for path in named if not path.startswith("so:"))


@patient
@given(logs())
def test_no_text_of_a_conversation_can_forge_an_index_row(log: LogBuilder):
    timeline = log.timeline()
    for turn in timeline.turns:
        text = index_of(log, turn)
        paths = {block.path for block in timeline.turn_blocks(turn)} | {f"ws:{turn}.conv.working.summary"}
        assert set(ROW.findall(text)) <= paths
        assert all(
            len(line) <= HINT_CHARS + len("    hint: ") for line in text.splitlines() if "hint:" in line[:10]
        )
        assert text.count("[TURN INDEX]\n") == 1


def test_an_index_has_a_section_for_every_kind_of_block():
    log = LogBuilder()
    log.message("write a report")
    log.act(("react.write", {"path": "a.md"}), notes="✓ [1] begun", thinking=("hm",), plan=log.plan("write"))
    log.result(
        "written", tool="react.write", blocks=(log.block("", "written"), log.view("b", "c"), log.file("a.md"))
    )
    log.message("shorter", event="followup")
    source = Source(sid=1, title="A page", url="https://a.example/x", turn_id=log.turn)
    log.act(("web_tools.web_search", {"queries": ["x"]}))
    log.result("1 hit", tool="web_tools.web_search", status="error", sources=(source,))
    cited = (Citation(sid=1, title="A page", url="https://a.example/x"),)
    log.answer("The report [[S:1]].", summary="Goal: a report", citations=cited)
    log.close()
    turn, write, search = "turn_0001", log.batches[1].entries[0], log.batches[4].entries[0]
    text = index_of(log, turn)
    assert text.startswith(
        f"[TURN INDEX]\n[path: ar:{turn}.react.turn.index]\nturn_id: {turn}\nstarted_at: {log.batches[0].at}\n"
        f"ended_at: {log.batches[-1].at}\noutcome: completed (complete)\n\nsummaries:\n"
        f"- of the turn, newest: ws:{turn}.conv.working.summary\n"
        f"- conv.working.summary: ws:{turn}.conv.working.summary.attempt.1\n    hint: Goal: a report\n"
    )
    heads = ["summaries", "messages", "events", "tools", "artifacts", "plans", "record", "sources"]
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == heads
    assert (
        f"- react.write: tc:{turn}.{write.actions[0].call_id}.call\n    status: ok\n"
        f"    result: tc:{turn}.{write.actions[0].call_id}.result\n    hint: written\n"
    ) in text
    assert f"- web_tools.web_search: tc:{turn}.{search.actions[0].call_id}.call\n    status: error\n" in text
    assert f"- react.tool.result: fi:{turn}.outputs/a.md\n    mime: text/markdown\n    kind: file\n" in text
    assert f"- view.0: tc:{turn}.{write.actions[0].call_id}.view.0\n    hint: c\n" in text
    assert text.count(f": fi:{turn}.outputs/a.md\n") == 1
    assert f"newest: ar:plan.latest:plan:{turn}:0a\n" in text
    assert text.endswith("sources:\n- A page: so:sources_pool[1]\n    url: https://a.example/x\n")


def test_the_index_of_an_open_turn_grows_with_it():
    log = LogBuilder()
    log.message("go")
    log.act(("react.read", {}))
    assert "status: no result yet" in index_of(log, log.turn)
    assert "ended_at" not in index_of(log, log.turn)
    assert "ws:" not in index_of(log, log.turn)
    log.result("read")
    assert "status: ok" in index_of(log, log.turn)


def test_a_missing_turn_has_no_index():
    assert LogBuilder().timeline().resolve(index_path("turn_0009")) == ()


@patient
@given(logs())
def test_every_turn_that_has_ended_has_a_summary(log: LogBuilder):
    timeline = log.timeline()
    for turn in timeline.history:
        found = timeline.resolve(f"ws:{turn.id}.conv.working.summary")
        assert len(found) == 1 if turn.closed else len(found) <= 1
        assert not found or found[0].text


def test_a_generated_summary_lists_the_request_the_work_and_the_files():
    log = LogBuilder()
    log.message("write\na report")
    log.act(("react.write", {"path": "a.md"}))
    log.result("written", tool="react.write", blocks=(log.file("a.md"),))
    log.answer("It is\nwritten.")
    log.close()
    (block,) = log.timeline().resolve("ws:turn_0001.conv.working.summary")
    assert block.meta["created_by"] == "runtime"
    assert block.text == (
        "Goal: write a report\nOutcome: It is written.\nTools: react.write\n"
        "Refs: fi:turn_0001.outputs/a.md, ar:turn_0001.user.prompt, ar:turn_0001.assistant.completion\n"
    )


def test_a_turn_that_failed_says_so_in_its_summary():
    log = LogBuilder()
    log.message("go")
    log.close(code="step_failed")
    (block,) = log.timeline().resolve("ws:turn_0001.conv.working.summary")
    assert "Outcome: the turn ended without an answer" in block.text


def test_a_summary_written_by_the_model_is_the_summary_of_the_turn():
    log = LogBuilder()
    log.message("go")
    log.answer("done", summary="Goal: go")
    log.close()
    (block,) = log.timeline().resolve("ws:turn_0001.conv.working.summary")
    assert block.text == "Goal: go"


def test_a_note_is_listed_with_the_kinds_of_its_lines():
    log = LogBuilder()
    log.message()
    log.act(("react.write", {"path": "n.md", "content": "[D] UTC"}))
    path = f"fi:{log.turn}.outputs/n.md"
    log.result(
        "ok",
        tool="react.write",
        blocks=(log.block(path, "[D] UTC", type="react.note", meta={"note_tags": ["D", "P"]}),),
    )
    assert (
        f"- react.note: {path}\n    mime: text/markdown\n    source_tool: react.write\n    tags: P, D\n"
        in index_of(log, log.turn)
    )


def test_the_artifacts_of_a_turn_are_listed_at_a_separate_path():
    log = LogBuilder()
    log.message()
    log.act(("react.write", {"path": "a.md", "content": "x"}))
    log.result("ok", tool="react.write", blocks=(log.block("", "written"), log.file("a.md")))
    path = f"ar:{log.turn}.artifacts.summary"
    assert str(parse_path(path)) == path
    (block,) = log.timeline().resolve(path)
    assert (block.type, block.path) == ("artifacts.summary", path)
    assert block.text == (
        f"[TURN ARTIFACTS]\n[path: {path}]\nturn_id: {log.turn}\n\nartifacts:\n"
        f"- react.tool.result: fi:{log.turn}.outputs/a.md\n    mime: text/markdown\n    kind: file\n"
        "    source_tool: react.write\n    visibility: external\n"
    )


def test_a_turn_without_artifacts_lists_none():
    log = LogBuilder()
    log.message()
    (block,) = log.timeline().resolve(f"ar:{log.turn}.artifacts.summary")
    assert block.text.endswith(f"turn_id: {log.turn}\n\nartifacts: none\n")
