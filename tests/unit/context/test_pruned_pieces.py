"""Forgetting: what is left of a turn when it gets old, and what always is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.context.pruning import is_cold, measure_pruning, plan_pruning
from stepline.context.rules import ContextRules
from stepline.model.entry import Feedback, Hide, Pruned
from stepline.rendering.layout import STANDARD
from stepline.rendering.piece import Piece, text_bytes
from stepline.rendering.reduce import CLIP_BYTES, answer_to, hide, prune
from tests.support.log_builder import Story, patient, stories

LONG = "and so it goes on, word by word. " * 40
KEEP_ALL = 99


def pruned(story: Story, *, keep: int = KEEP_ALL, intact: int = 1, settled: int = 0) -> list[Piece]:
    timeline = story.timeline()
    entry = Pruned(turn=story.turn, at=story.at, cause="budget", keep=keep, intact=intact, settled=settled)
    return prune(timeline.pieces, entry, len(timeline.history), STANDARD)


def of(pieces: list[Piece], *kinds: str) -> list[str]:
    return [piece.text for piece in pieces if piece.kind in kinds]


def shown(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def turn(story: Story, *, blocks: Any = None, answer: str = "done", **fields: Any) -> None:
    """Tell a turn of one call."""
    story.message(fields.pop("prompt", "hello"))
    story.act(("react.read", {"path": "a"}), thinking=("hm",), notes="I look.")
    story.result(LONG, **({"blocks": blocks} if blocks else {}))
    story.answer(answer, **fields)
    story.close()


def told(**fields: Any) -> Story:
    """Return one such turn, with another one open behind it."""
    story = Story()
    turn(story, **fields)
    story.message("next")
    return story


def test_of_a_turn_that_is_not_intact_results_are_stubs_and_thoughts_are_gone():
    story = told()
    pieces = pruned(story)
    (stub,) = of(pieces, "result")
    path = next(piece.path for piece in pieces if piece.kind == "result")
    assert (path in stub, len(stub) < 300) == (True, True)
    assert of(pieces, "thinking", "status") == ["", ""]
    for kind in ("prompt", "notes", "call", "answer", "round", "end", "closing"):
        assert of(pieces, kind) == of(list(story.timeline().pieces), kind)


def test_a_short_result_stays_with_its_status():
    story = told(blocks=(Story().block("", "fine"),))
    assert of(pruned(story), "result", "status") == of(list(story.timeline().pieces), "result", "status")


def test_long_messages_and_answers_are_cut_and_name_where_they_stand_whole():
    story = told(prompt=LONG * 5, answer=LONG * 5)
    for kind in ("prompt", "answer"):
        (text, *_) = of(pruned(story), kind)
        path = next(piece.path for piece in story.timeline().pieces if piece.kind == kind)
        assert (len(text.encode()) <= CLIP_BYTES, path in text) == (True, True)
        assert not any(piece.shows for piece in pruned(story) if piece.kind == kind and piece.turn == 1)


def test_intact_turns_and_the_open_one_are_left_alone():
    story = told()
    story.act(("react.read", {}))
    story.result(LONG)
    pieces = story.timeline().pieces
    assert pruned(story, intact=2) == list(pieces)
    assert [p for p in pruned(story) if p.turn == 2] == [p for p in pieces if p.turn == 2]


def test_what_is_settled_of_the_open_turn_becomes_stubs_where_the_entry_says_so():
    story = Story()
    story.message(LONG * 5)
    for _ in range(2):
        story.act(("react.read", {}), thinking=("hm",))
        story.result(LONG)
    first = story.batches[2].n
    pieces = pruned(story, settled=first)
    assert [len(text) < 400 for text in of(pieces, "result")] == [True, False]
    assert of(pieces, "prompt") == of(list(story.timeline().pieces), "prompt")


def test_an_old_turn_is_its_summary_and_what_always_stays():
    story = Story()
    story.message("plan it")
    story.act(("react.plan", {"steps": ["a"]}))
    story.result("planned", tool="react.plan")
    story.message("and this", event="followup")
    story.contribute(story.block("", "[P] prefers tea", type="react.note"))
    story.answer("done", summary="Goal: tea\nOutcome: planned")
    story.close()
    story.message("next")
    story.rate("turn_0001", text="well done")
    story.close(code="step_failed")
    story.wait(1000)
    story.message("again")
    pieces = [piece for piece in pruned(story, keep=1) if piece.turn == 1]
    assert [piece.kind for piece in pieces] == ["header", "card", "call", "event", "note", "feedback"]
    text = shown(pieces)
    for kept in ("Outcome: planned", "react.plan", "and this", "prefers tea", "well done"):
        assert kept in text
    assert "plan it" not in text


def test_a_summary_on_a_card_is_visible_as_long_as_it_is_whole():
    for summary, whole in (("Goal: tea\nOutcome: planned", True), (LONG * 5, False)):
        story = told(summary=summary)
        path = "ws:turn_0001.conv.working.summary.attempt.1"
        assert story.timeline().visible(path) is None
        story.prune(keep=1, intact=1)
        assert (story.timeline().visible(path) is not None) == whole


def test_an_old_turn_without_a_summary_is_rows_of_paths():
    story = told()
    pieces = [piece for piece in pruned(story, keep=1) if piece.turn == 1]
    assert [piece.kind for piece in pieces] == ["header", "card"]
    for piece in story.timeline().pieces:
        if piece.turn == 1 and piece.kind in ("prompt", "call", "result", "answer"):
            assert piece.path in pieces[1].text


def test_a_skill_is_pruned_to_the_path_by_which_it_is_read_again():
    story = Story()
    story.message()
    story.act(("react.read", {"paths": ["sk:public.brand"]}))
    story.result("", blocks=(story.view("sk:public.brand", LONG),))
    story.answer("done")
    story.close()
    story.message("next")
    assert "sk:public.brand" in of(pruned(story), "result")[0]
    assert "skill: path=sk:public.brand" in shown(pruned(story, keep=1))


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ((5_000, 5_000, 5_000), [False, True, True]),
        ((5_000, 700_000, 700_000), [False, False, True]),
        ((5_000, 5_000, 800_000), [False, False, False]),
    ],
    ids=["number", "sum", "one"],
)
def test_the_two_newest_pictures_stay_if_they_are_not_too_large_together(
    sizes: tuple[int, ...], kept: list[bool]
):
    about: dict[str, Any] = {"kind": "result", "turn": 1, "text": "seen\n" * 200, "shows": "=", "bulk": True}
    before = [
        Piece(n=n, path=f"fi:{n}", mime="image/png", size=size, **about) for n, size in enumerate(sizes, 1)
    ]
    entry = Pruned(turn="turn_x", at="", cause="ttl", keep=9, intact=1)
    after = prune(before, entry, 2, STANDARD)
    assert [a is b for a, b in zip(before, after, strict=True)] == kept


@patient
@given(stories(forgetting=True), st.integers(1, 3), st.integers(0, 3))
def test_forgetting_more_is_the_same_with_or_without_forgetting_less_before(
    story: Story, keep: int, more: int
):
    pieces, newest = story.timeline().pieces, len(story.timeline().history)
    about: dict[str, Any] = {"turn": "turn_x", "at": story.at, "cause": "budget"}
    less, most = (
        Pruned(keep=keep + more, intact=keep + more, **about),
        Pruned(keep=keep, intact=1, **about),
    )
    assert shown(prune(prune(pieces, less, newest, STANDARD), most, newest, STANDARD)) == shown(
        prune(pieces, most, newest, STANDARD)
    )


@patient
@given(stories(forgetting=True), st.integers(1, 3))
def test_pruning_never_makes_longer_what_it_does_not_turn_into_rows(story: Story, intact: int):
    before = story.timeline().pieces
    after = pruned(story, intact=intact)
    assert all(len(b.text) <= len(a.text) for a, b in zip(before, after, strict=True))


# by time


def aged(seconds: float, *, turns: int = 3) -> tuple[Story, Any]:
    story = Story()
    for _ in range(turns):
        turn(story)
    story.message("next")
    return story, story.now + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "rules", "cold"),
    [
        (200, ContextRules(), False),
        (400, ContextRules(), True),
        (400, ContextRules(ttl_s=0), False),
        (400, ContextRules(ttl_s=3600), False),
        (3595, ContextRules(ttl_s=3600), True),
    ],
)
def test_nothing_is_pruned_while_a_cache_may_live(seconds: float, rules: ContextRules, cold: bool):
    story, now = aged(seconds)
    timeline = story.timeline()
    assert is_cold(timeline, now, rules) == cold
    assert (plan_pruning(timeline, now, rules) is not None) == cold


def test_a_conversation_that_was_never_asked_about_is_not_cold():
    story = Story()
    story.message()
    assert not is_cold(story.timeline(), story.now + timedelta(days=1), ContextRules())


def test_a_pruning_that_shortens_nothing_is_none():
    story, now = aged(400, turns=1)
    assert plan_pruning(story.timeline(), now, ContextRules()) is None
    story, now = aged(400)
    entry = plan_pruning(story.timeline(), now, ContextRules())
    assert entry is not None
    assert entry.after_tokens < entry.before_tokens
    story.put(story.state, entry)
    assert plan_pruning(story.timeline(), now, ContextRules()) is None
    assert measure_pruning(story.timeline(), entry) is None


def test_an_idle_conversation_is_not_pruned():
    story, now = aged(400)
    story.close(code="step_failed")
    assert plan_pruning(story.timeline(), now, ContextRules()) is None


# hiding and feedback, as pieces


def test_of_what_one_batch_brought_at_a_path_the_first_piece_carries_the_replacement():
    about: dict[str, Any] = {"kind": "result", "turn": 1, "path": "fi:x", "shows": "=", "bulk": True}
    pieces = [Piece(n=n, text=f"{n}\n", **about) for n in (1, 2, 2)]
    made = hide(pieces, Hide(path="fi:x", n=2, replacement="two"), STANDARD)
    assert [("two" in piece.text, bool(piece.text), piece.shows) for piece in made] == [
        (False, True, "="),
        (True, True, ""),
        (False, False, ""),
    ]
    assert text_bytes(hide(pieces, Hide(path="fi:x", n=2), STANDARD)) == len("1\n")


def test_feedback_on_a_turn_that_was_compacted_stands_behind_what_is_left_of_it():
    story = Story()
    turn(story)
    turn(story)
    opened = story.n
    story.message("next")
    story.compact(cut=opened)
    pieces = list(story.timeline().pieces)
    said = Feedback(turn="turn_0001", at=story.at, reaction="ok")
    made = answer_to(pieces, said, "ar:turn_0001.feedback.latest", "good\n", 1)
    assert [(piece.kind, piece.turn) for piece in made[:3]] == [("memory", 0), ("feedback", 0), ("header", 3)]
    assert answer_to(made, said, "ar:turn_0001.feedback.latest", "good\n", 1) == made
    gone = Feedback(turn="turn_0001", at=story.at)
    assert answer_to(made, gone, "ar:turn_0001.feedback.latest", "", 1) == pieces
