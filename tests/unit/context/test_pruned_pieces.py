"""Forgetting: what is left of a turn when it gets old, and what always is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.context.pruning import find_settled, is_cold, measure_pruning, plan_pruning
from stepline.context.rules import ContextRules
from stepline.model.block import Hide
from stepline.model.entry import Feedback, Pruned
from stepline.rendering.piece import Piece, text_bytes
from stepline.rendering.reduce import CLIP_BYTES, answer_to, hide, prune
from stepline.rendering.text_form import STANDARD
from tests.support.log_builder import LogBuilder, logs, patient

LONG = "and so it goes on, word by word. " * 40
KEEP_ALL = 99


def pruned(log: LogBuilder, *, keep: int = KEEP_ALL, intact: int = 1, settled: int = 0) -> list[Piece]:
    timeline = log.timeline()
    entry = Pruned(turn=log.turn, at=log.at, cause="budget", keep=keep, intact=intact, settled=settled)
    return prune(timeline.pieces, entry, len(timeline.history), STANDARD)


def of(pieces: list[Piece], *kinds: str) -> list[str]:
    return [piece.text for piece in pieces if piece.kind in kinds]


def shown(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def turn(log: LogBuilder, *, blocks: Any = None, answer: str = "done", **fields: Any) -> None:
    """Add a turn with one call."""
    log.message(fields.pop("prompt", "hello"))
    log.act(("react.read", {"path": "a"}), thinking=("hm",), notes="I look.")
    log.result(LONG, **({"blocks": blocks} if blocks else {}))
    log.answer(answer, **fields)
    log.close()


def closed_turn(**fields: Any) -> LogBuilder:
    """Return a log of one such turn, followed by an open one."""
    log = LogBuilder()
    turn(log, **fields)
    log.message("next")
    return log


def test_a_pruned_turn_has_stubs_for_results_and_no_thoughts():
    log = closed_turn()
    pieces = pruned(log)
    (stub,) = of(pieces, "result")
    path = next(piece.path for piece in pieces if piece.kind == "result")
    assert (path in stub, len(stub) < 300) == (True, True)
    assert of(pieces, "thinking", "status") == ["", ""]
    for kind in ("prompt", "notes", "call", "answer", "round", "end", "closing"):
        assert of(pieces, kind) == of(list(log.timeline().pieces), kind)


def test_a_short_result_stays_with_its_status():
    log = closed_turn(blocks=(LogBuilder().block("", "fine"),))
    assert of(pruned(log), "result", "status") == of(list(log.timeline().pieces), "result", "status")


def test_long_messages_and_answers_are_cut_and_name_their_path():
    log = closed_turn(prompt=LONG * 5, answer=LONG * 5)
    for kind in ("prompt", "answer"):
        (text, *_) = of(pruned(log), kind)
        path = next(piece.path for piece in log.timeline().pieces if piece.kind == kind)
        assert (len(text.encode()) <= CLIP_BYTES, path in text) == (True, True)
        assert not any(piece.shows for piece in pruned(log) if piece.kind == kind and piece.turn == 1)


def test_pruning_leaves_intact_turns_and_the_open_turn_unchanged():
    log = closed_turn()
    log.act(("react.read", {}))
    log.result(LONG)
    pieces = log.timeline().pieces
    assert pruned(log, intact=2) == list(pieces)
    assert [p for p in pruned(log) if p.turn == 2] == [p for p in pieces if p.turn == 2]


def test_a_closed_turn_that_is_too_large_keeps_its_newest_results():
    log = LogBuilder()
    log.message("hello")
    for _ in range(3):
        log.act(("react.read", {}), thinking=("hm",))
        log.result(LONG)
    log.answer("done")
    log.close()
    log.message("next")
    timeline = log.timeline()
    rules = ContextRules(intact_tokens=800)
    entry = plan_pruning(timeline, log.now + timedelta(seconds=400), rules)
    assert entry is not None
    pieces = prune(timeline.pieces, entry, len(timeline.history), STANDARD)
    assert [len(text) < 400 for text in of(pieces, "result")] == [True, True, False]
    assert find_settled(timeline, ContextRules()) == 0
    assert find_settled(timeline, ContextRules(intact_tokens=800, intact_turns=1)) == 0


@pytest.mark.parametrize(("requests", "keep"), [(0.1, None), (10, 3), (1000, 2)])
def test_old_turns_become_cards_in_a_live_cache_only_once_that_pays_too(requests, keep):
    log = LogBuilder()
    for prompt in ("one", "two", "x" * CLIP_BYTES):
        log.message(prompt)
        if log.timeline().newest == 3:
            log.prune(keep=2, intact=1, cause="price", steady=True)
        log.act(("react.read", {}))
        log.result(LONG * 5)
        log.answer("done")
        log.close()
    log.message("go on")
    rules = ContextRules(keep_turns=2, intact_turns=1, horizon_requests=requests, horizon_from=0)
    entry = plan_pruning(log.timeline(), log.now, rules)
    assert (entry and (entry.cause, entry.steady, entry.keep)) == (keep and ("price", True, keep))


def test_an_entry_can_prune_the_settled_part_of_the_open_turn():
    log = LogBuilder()
    log.message(LONG * 5)
    for _ in range(2):
        log.act(("react.read", {}), thinking=("hm",))
        log.result(LONG)
    first = log.batches[2].n
    pieces = pruned(log, settled=first)
    assert [len(text) < 400 for text in of(pieces, "result")] == [True, False]
    assert of(pieces, "prompt") == of(list(log.timeline().pieces), "prompt")


def test_an_old_turn_keeps_its_summary_and_its_permanent_pieces():
    log = LogBuilder()
    log.message("plan it")
    log.act(("react.plan", {"steps": ["a"]}))
    log.result("planned", tool="react.plan")
    log.message("and this", event="followup")
    log.contribute(log.block("", "[P] prefers tea", type="react.note"))
    log.answer("done", summary="Goal: tea\nOutcome: planned")
    log.close()
    log.message("next")
    log.rate("turn_0001", text="well done")
    log.close(code="step_failed")
    log.wait(1000)
    log.message("again")
    pieces = [piece for piece in pruned(log, keep=1) if piece.turn == 1]
    assert [piece.kind for piece in pieces] == ["header", "card", "call", "event", "note", "feedback"]
    text = shown(pieces)
    for kept in ("Outcome: planned", "react.plan", "and this", "prefers tea", "well done"):
        assert kept in text
    assert "plan it" not in text


def test_a_summary_on_a_card_is_visible_while_it_is_whole():
    for summary, whole in (("Goal: tea\nOutcome: planned", True), (LONG * 5, False)):
        log = closed_turn(summary=summary)
        path = "ws:turn_0001.conv.working.summary.attempt.1"
        assert log.timeline().visible(path) is None
        log.prune(keep=1, intact=1)
        assert (log.timeline().visible(path) is not None) == whole


def test_an_old_turn_without_a_summary_is_rows_of_paths():
    log = closed_turn()
    pieces = [piece for piece in pruned(log, keep=1) if piece.turn == 1]
    assert [piece.kind for piece in pieces] == ["header", "card"]
    for piece in log.timeline().pieces:
        if piece.turn == 1 and piece.kind in ("prompt", "call", "result", "answer"):
            assert piece.path in pieces[1].text


@pytest.mark.parametrize("path", ["sk:public.brand", "sk:public.brand/references/colours.md"])
def test_a_skill_is_pruned_to_the_path_by_which_it_is_read_again(path):
    log = LogBuilder()
    log.message()
    log.act(("react.read", {"paths": [path]}))
    log.result("", blocks=(log.view(path, LONG),))
    log.answer("done")
    log.close()
    log.message("next")
    assert f"path={path}" in of(pruned(log), "result")[0]
    assert f"skill: path={path}" in shown(pruned(log, keep=1))


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
@given(logs(forgetting=True), st.integers(1, 3), st.integers(0, 3))
def test_pruning_in_two_steps_equals_pruning_at_once(log: LogBuilder, keep: int, more: int):
    pieces, newest = log.timeline().pieces, len(log.timeline().history)
    about: dict[str, Any] = {"turn": "turn_x", "at": log.at, "cause": "budget"}
    less, most = (
        Pruned(keep=keep + more, intact=keep + more, **about),
        Pruned(keep=keep, intact=1, **about),
    )
    assert shown(prune(prune(pieces, less, newest, STANDARD), most, newest, STANDARD)) == shown(
        prune(pieces, most, newest, STANDARD)
    )


@patient
@given(logs(forgetting=True), st.integers(1, 3))
def test_pruning_never_lengthens_a_piece_unless_it_becomes_a_row(log: LogBuilder, intact: int):
    before = log.timeline().pieces
    after = pruned(log, intact=intact)
    assert all(len(b.text) <= len(a.text) for a, b in zip(before, after, strict=True))


# by time


def aged(seconds: float, *, turns: int = 3) -> tuple[LogBuilder, Any]:
    log = LogBuilder()
    for _ in range(turns):
        turn(log)
    log.message("next")
    return log, log.now + timedelta(seconds=seconds)


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
def test_pruning_waits_until_the_cache_has_expired(seconds: float, rules: ContextRules, cold: bool):
    log, now = aged(seconds)
    timeline = log.timeline()
    assert is_cold(timeline, now, rules) == cold
    assert (plan_pruning(timeline, now, rules) is not None) == cold


def test_a_conversation_without_a_request_is_not_cold():
    log = LogBuilder()
    log.message()
    assert not is_cold(log.timeline(), log.now + timedelta(days=1), ContextRules())


def test_a_pruning_that_shortens_nothing_is_skipped():
    log, now = aged(400, turns=1)
    assert plan_pruning(log.timeline(), now, ContextRules()) is None
    log, now = aged(400)
    entry = plan_pruning(log.timeline(), now, ContextRules())
    assert entry is not None
    assert entry.after_tokens < entry.before_tokens
    log.put(log.state, entry)
    assert plan_pruning(log.timeline(), now, ContextRules()) is None
    assert measure_pruning(log.timeline(), entry) is None


def test_an_idle_conversation_is_not_pruned():
    log, now = aged(400)
    log.close(code="step_failed")
    assert plan_pruning(log.timeline(), now, ContextRules()) is None


# hiding and feedback, as pieces


def test_the_first_piece_of_a_batch_at_a_path_has_the_replacement():
    about: dict[str, Any] = {"kind": "result", "turn": 1, "path": "fi:x", "shows": "=", "bulk": True}
    pieces = [Piece(n=n, text=f"{n}\n", **about) for n in (1, 2, 2)]
    made = hide(pieces, Hide(path="fi:x", n=2, replacement="two"), STANDARD)
    assert [("two" in piece.text, bool(piece.text), piece.shows) for piece in made] == [
        (False, True, "="),
        (True, True, ""),
        (False, False, ""),
    ]
    assert text_bytes(hide(pieces, Hide(path="fi:x", n=2), STANDARD)) == len("1\n")


def test_feedback_on_a_compacted_turn_follows_its_remains():
    log = LogBuilder()
    turn(log)
    turn(log)
    opened = log.n
    log.message("next")
    log.compact(cut=opened)
    pieces = list(log.timeline().pieces)
    said = Feedback(turn="turn_0001", at=log.at, reaction="ok")
    made = answer_to(pieces, said, "ar:turn_0001.feedback.latest", "good\n", 1)
    assert [(piece.kind, piece.turn) for piece in made[:3]] == [("memory", 0), ("feedback", 0), ("header", 3)]
    assert answer_to(made, said, "ar:turn_0001.feedback.latest", "good\n", 1) == made
    gone = Feedback(turn="turn_0001", at=log.at)
    stone = answer_to(made, gone, "ar:turn_0001.feedback.latest", "withdrawn\n", 1)
    assert stone == [made[0], replace(made[1], text="withdrawn\n"), *made[2:]]
