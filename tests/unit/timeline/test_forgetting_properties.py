"""Guarantees of forgetting: pruning, hiding, and reading hidden or pruned content again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.context.rules import ContextRules, pre_tail
from stepline.model.block import Block
from stepline.model.decision import Action
from stepline.model.entry import Closed, Decided, Feedback, Pruned, Resulted
from stepline.model.path import parse_path
from stepline.rendering.quote import INDENT, quote
from stepline.rendering.reduce import prune
from stepline.rendering.text_form import STANDARD
from stepline.rendering.turn_facts import feedback_path
from stepline.timeline.fold import Timeline
from stepline.tools.catalogue import default_registry
from stepline.tools.content import load_content
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.registry import run_tool
from tests.support.conversation import Conversation, text_of
from tests.support.generation import answered, called
from tests.support.log_builder import LANE, LogBuilder, logs, patient

RULES = ContextRules()
LINES = "".join(f"{n}: the quick brown fox jumps over the lazy dog\n" for n in range(1, 61))


def context(timeline: Timeline) -> ToolContext:
    """Return the context of a tool in the newest round."""
    return ToolContext(
        lane=LANE,
        turn=timeline.turns[-1],
        call_id="tc_00000000000f",
        iteration=0,
        ts="2026-11-21T10:00:00.000Z",
        artifacts=MemoryArtifacts(),
        timeline=timeline,
        caps=ReadCaps(),
        rules=RULES,
    )


def read_back(timeline: Timeline, path: str) -> str:
    return load_content(parse_path(path), context(timeline)).text or ""


def call(timeline: Timeline, tool: str, **params: Any) -> ToolOutput:
    action = Action(call_id="tc_00000000000f", tool_id=tool, params=params)
    return run_tool(default_registry(), action, context(timeline))


def codes(output: ToolOutput) -> list[str]:
    return [json.loads(block.text)["code"] for block in output.blocks if block.type == "react.notice"]


# 2: pruning


@patient
@given(logs(forgetting=True), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_pruning_twice_is_pruning_once(log: LogBuilder, keep: int, intact: int, settled: bool):
    pieces, newest = log.timeline().pieces, len(log.timeline().history)
    about = {"turn": "turn_x", "at": log.at, "cause": "budget", "settled": log.n if settled else 0}
    entry = Pruned(keep=max(keep, intact), intact=intact, **about)
    once = prune(pieces, entry, newest, STANDARD)
    assert prune(once, entry, newest, STANDARD) == once


@patient
@given(logs(forgetting=True))
def test_a_path_that_was_visible_once_stays_readable(log: LogBuilder):
    seen: dict[str, str] = {}
    gone: set[str] = set()
    timeline = Timeline.empty(LANE)
    for batch in log.batches:
        timeline = timeline.extended([batch])
        rated = {feedback_path(entry.turn) for entry in batch.entries if isinstance(entry, Feedback)}
        visible = {piece.path for piece in timeline.pieces if piece.path}
        withdrawn = {path for path in rated | gone if not timeline.resolve(path)}
        gone = (gone - rated) | withdrawn
        for path in gone & seen.keys():  # the user withdrew it: the path is empty
            del seen[path]
        for path in (visible | (rated & seen.keys())) - gone:
            if path not in seen or is_renewed(path):
                seen[path] = read_back(timeline, path)
    assert {path: read_back(timeline, path) for path in seen} == seen


def is_renewed(path: str) -> bool:
    """Return True if newer content may replace that of a path."""
    return path.startswith(("fi:", "su:")) or path.endswith("feedback.latest")


@patient
@given(logs(forgetting=True), st.integers(0, 30))
def test_a_process_that_has_to_read_the_log_again_reads_the_same(log: LogBuilder, base: int):
    whole = log.timeline()
    base = min(base, whole.n)

    def load(after: int, upto: int) -> list[Any]:
        return [batch for batch in log.batches if after < batch.n <= upto]

    cold = replace(whole, base=base, batches=whole.batches[base:], load=load)
    paths = dict.fromkeys(piece.path for piece in whole.pieces if piece.path)
    assert [read_back(cold, path) for path in paths] == [read_back(whole, path) for path in paths]


@patient
@given(logs(forgetting=True))
def test_a_visible_path_shows_its_current_content(log: LogBuilder):
    timeline = log.timeline()
    for piece in timeline.pieces:
        quoted = piece.path and piece.kind in QUOTED and not UNQUOTED.search(piece.path)
        shown = timeline.visible(piece.path) if quoted else None
        if shown is not None:
            content = load_content(parse_path(piece.path), context(timeline))
            texts = [p.text for p in timeline.pieces if (p.path, p.n) == (piece.path, shown.n)]
            said = quote(content.text or "").removeprefix(INDENT)
            has_payload = "payload" in content.block.meta  # shown on one line, read as several
            assert has_payload or not content.is_shown_by(shown) or any(said in text for text in texts)


QUOTED = ("prompt", "event", "thinking", "code", "result", "answer", "note", "stage", "card")
"""Kinds of pieces whose text holds the content unchanged."""
UNQUOTED = re.compile(r"\.call$|\.notice")
"""Paths of pieces whose shown text differs from their content."""


# 7: hiding


def rounds(*sizes: int) -> LogBuilder:
    """Return a turn with a result of each of these sizes in characters, and an open round with a hide."""
    log = LogBuilder()
    log.message("look")
    for size in sizes:
        log.act(("react.read", {}))
        log.result("x " * (size // 2))
    log.act(("react.hide", {}))
    return log


def result_path(log: LogBuilder, batch: int) -> str:
    (entry,) = [entry for entry in log.batches[batch - 1].entries if isinstance(entry, Resulted)]
    return f"tc:{log.turn}.{entry.call_id}.result"


def test_a_block_before_the_pre_tail_cannot_be_hidden():
    log = rounds(*[300] * 6)
    timeline = log.timeline()
    oldest, newest = result_path(log, 3), result_path(log, 13)
    output = call(timeline, "react.hide", path=oldest, replacement="seen")
    assert (output.status, codes(output), output.hides) == ("error", ["hide_before_cache"], ())
    assert json.loads(output.blocks[-1].text)["before_cache"] is True
    assert pre_tail(timeline.pieces, RULES) > 0
    assert call(timeline, "react.hide", path=newest, replacement="seen").status == "ok"


def test_a_block_before_the_editable_tail_cannot_be_hidden():
    limit_bytes = int(RULES.editable_tail_tokens * 3.2)
    log = rounds(300, 300, limit_bytes)
    output = call(log.timeline(), "react.hide", path=result_path(log, 5), replacement="seen")
    assert (output.status, codes(output)) == ("error", ["hide_too_old"])
    assert json.loads(output.blocks[-1].text)["status"] == "too_old"


def test_any_block_near_the_end_can_be_hidden_without_a_pre_tail():
    log = rounds(300)
    timeline = log.timeline()
    assert pre_tail(timeline.pieces, RULES) == 0
    path = result_path(log, 3)
    output = call(timeline, "react.hide", path=path, replacement="three hundred x")
    assert output.status == "ok"
    log.result("{}", tool="react.hide", hides=output.hides)
    after = log.timeline()
    shown = "".join(piece.text for piece in after.pieces)
    assert ("x " * 150 in shown, "three hundred x" in shown) == (False, True)
    assert read_back(after, path) == "x " * 150
    assert after.visible(path) is None


def test_a_refused_hide_never_ends_the_turn():
    conversation = Conversation(
        called("react.hide", {"replacement": "x"}),
        called("react.hide", {"path": "fi:nonsense", "replacement": "x"}),
        called("react.hide", {"path": "fi:nonsense"}),
        answered("done"),
    )
    conversation.send("go")
    conversation.run()
    assert [entry.status for entry in conversation.entries(Resulted)] == ["error"] * 2
    assert [entry.accepted for entry in conversation.entries(Decided)] == [True, True, False, True]
    assert [entry.answer for entry in conversation.entries(Closed)] == ["done"]


# 8: ranges


def views(conversation: Conversation) -> Iterator[Block]:
    for entry in conversation.entries(Resulted):
        yield from (block for block in entry.blocks if block.meta.get("source_path"))


@pytest.mark.parametrize(
    ("asked", "stub_range"),
    [
        ({"line_start": 11, "line_count": 20}, "range=lines:11-30"),
        ({"offset_text_symbols": 100, "max_text_symbols": 900}, "range=text_symbols:100-1000"),
    ],
    ids=["lines", "characters"],
)
def test_a_range_that_was_pruned_is_read_again_by_its_stub(asked: dict[str, int], stub_range: str):
    conversation = Conversation()
    conversation.send("one")
    turn = conversation.state.turn
    item = {"path": f"fi:{turn}.outputs/fox.md", **asked}
    conversation.model.add(
        called("react.write", {"path": "fox.md", "channel": "canvas", "content": LINES}),
        called("react.read", {"items": [item]}),
        answered("read"),
        answered("two"),
        called("react.read", {"items": [item]}),
        answered("three"),
    )
    conversation.run()
    for index in (2, 3):
        conversation.clock.pause(1000)
        conversation.send("more", id=f"m{index}")
        conversation.run()
    assert [entry.cause for entry in conversation.entries(Pruned)] == ["ttl"]
    prompt = text_of(conversation.model.requests[-2])
    (stub,) = [line for line in prompt.splitlines() if stub_range in line]
    assert item["path"] in stub
    assert LINES.splitlines()[19] not in prompt
    first, again = views(conversation)
    assert (again.text, again.meta) == (first.text, first.meta)
