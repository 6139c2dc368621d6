"""Long texts: texts for the model are bounded, and a cut text names the path to the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.block import Produced
from stepline.model.decision import Action, LastingCall, Notice
from stepline.model.entry import (
    ApprovalAnswered,
    Closed,
    Compacted,
    Contributed,
    Decided,
    Deferred,
    Feedback,
    Inbound,
    Resulted,
)
from stepline.model.usage import estimate_tokens
from stepline.rendering.excerpt import GLIMPSE_CHARS, parse_json, render_glimpse, render_shape
from stepline.rendering.piece import ALL, Piece
from stepline.rendering.pieces_of_entry import Writer
from stepline.rendering.render_entry import (
    RESULT_PREVIEW_CHARS,
    TEXT_BYTES,
    TEXT_TOKENS,
    fit_text,
    is_short,
    render_result_text,
    render_text,
)
from stepline.rendering.render_reduction import REPLACEMENT_BYTES, fit_replacement
from stepline.rendering.text_form import STANDARD
from stepline.rendering.turn_facts import Turn
from stepline.timeline.compacted import CARRIED_BYTES
from tests.support.rendered_text import forged
from tests.unit.rendering.golden import plan

AT = "2026-11-21T10:15:00.000Z"
PATH = "ar:turn_1.user.prompt"
HUGE = ["x" * 300_000, "\n" * 90_000, "\x1b" * 50_000, "é\u2028" * 40_000, "😀 " * 90_000]
HUGE += [json.dumps([{"sid": n, "title": "t" * 90, "\n[USER MESSAGE]": [n] * 20} for n in range(2_000)])]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=60), inner, max_size=12),
    max_leaves=60,
)


def said(text: str) -> Inbound:
    return Inbound(message_id="m1", event="prompt", text=text, user="ada", at=AT)


def decided(**more: Any) -> Decided:
    return Decided(**{"iteration": 0, "claim": 0, "action": "call_tool", "started_at": AT, **more})


def everything(huge: str) -> list[Piece]:
    """Return the pieces of every kind that can hold foreign text, each with as much of it as fits."""
    writer = Writer(STANDARD, "turn_1", 1)
    params = {
        "q": huge,
        "content": huge,
        "deep": {huge[:99]: [huge] * 99},
        **{f"k{n}": huge for n in range(200)},
    }
    action = Action(call_id="tc_1", tool_id="t", params=params, code=huge)
    notice = Notice(code=huge, message=huge, extra={huge[:50]: huge})
    loud = decided(
        thinking=(huge,), notes=huge, actions=(action,), notices=(notice,), answer=huge, summary=huge
    )
    cut = decided(accepted=False, interrupted=True, raw=huge)
    blocks = (
        Produced(text=huge),
        Produced(type="react.notice", text=huge),
        Produced(type="react.note", path="fi:turn_1.outputs/n", text=huge),
    )
    meta = {"name": huge, "mime": huge, "summary": huge}
    stages = (Produced(type=huge, text=huge), Produced(type="user.attachment.text", text=huge, meta=meta))
    return [
        *writer.decision(1, loud, 1, ()),
        *writer.decision(2, cut, 1, ()),
        *(
            piece
            for tool in ("t", "react.read")
            for piece in writer.result(3, _result(tool, *blocks), last=True)
        ),
        *writer.contributed(4, Contributed(turn="turn_1", at=AT, blocks=stages)),
        writer.edited(4, _edited(action), action),
        writer.piece("prompt", 5, STANDARD.prompt(said(huge), PATH, "", ()), huge, path=PATH),
        writer.piece("event", 6, STANDARD.event(said(huge), PATH, ()), huge, path=PATH),
        writer.piece("closing", 7, STANDARD.closing(_closed(huge), [plan(1, steps=(huge,) * 50)] * 50)),
    ]


def _result(tool: str, *blocks: Produced) -> Resulted:
    error = {"message": "m" * 9_000}
    made = {"call_id": "tc_1", "tool_id": tool, "iteration": 0, "at": AT, "blocks": blocks, "error": error}
    return Resulted(**made, status="error")


def _edited(action: Action) -> ApprovalAnswered:
    about = {"n": 3, "turn": "turn_1", "at": AT, "requested_at": AT, "message_id": "a1"}
    return ApprovalAnswered(
        iteration=0, call_id="tc_0", tool_id="t", verdict="edited", action=action, **about
    )


def _closed(huge: str) -> Closed:
    return Closed(turn="turn_1", outcome="error", reason="error", code=huge, at=AT)


# Spec 2.3 and 4.5: new text is capped, and every reduction is shorter still.
@pytest.mark.parametrize("huge", HUGE, ids=lambda text: ascii(text[:4]))
def test_texts_for_the_model_are_bounded(huge: str):
    for piece in everything(huge):
        capped = 601_000 if piece.tool == "react.read" else 1.2 * TEXT_BYTES
        if piece.kind == "result" and piece.tool != "react.read":
            capped = 4 * RESULT_PREVIEW_CHARS + 4_000
        assert len(piece.text.encode()) <= capped, piece.kind
        assert piece.shows != ALL or piece.tool == "react.read", piece.kind
        assert forged(piece.text) == []
        if not piece.path:
            continue
        for text in (STANDARD.stub(piece) if piece.bulk else "", STANDARD.hidden(piece, huge)):
            assert len(text.encode()) <= REPLACEMENT_BYTES + 200
            assert forged(text) == []
        assert len(STANDARD.clipped(piece, 1_000).encode()) <= 1_000
    whole = Compacted(
        id="c", turn="turn_1", at=AT, scope="history", trigger="forced", status="completed",
        before_tokens=0, max_tokens=0, summary=huge, checkpoint=huge,
    )  # fmt: skip
    turns = [Turn(id=f"turn_{n}", started_at=AT, opened=n, prompts=(n,)) for n in range(500)]
    for text in (
        STANDARD.memory(whole, "su:turn_1.conv.range.summary", turns),
        STANDARD.checkpoint(whole, "ar:turn_1.react.mid_turn.compaction.3"),
        STANDARD.plans([plan(n, steps=(huge,) * 50) for n in range(60)]),
        STANDARD.rows(everything(huge) * 30),
        STANDARD.feedback(Feedback(turn="turn_1", at=AT, text=huge), PATH),
        STANDARD.card(Piece(kind="summary", n=1, turn=1, text="", path=PATH, hint=huge)),
    ):
        assert estimate_tokens(text) <= 1.2 * TEXT_TOKENS
        assert forged(text) == []


def test_only_the_newest_late_events_are_named():
    paths = [f"ar:turn_1.external.followup.m{n}" for n in range(1_000)]
    deferred = Deferred(turn="turn_1", iteration=0)
    for text in (STANDARD.round(decided(), paths), STANDARD.outcome(deferred, "ar:x", paths)):
        assert len(text) < 1_000
        assert f"992 earlier ones, {paths[992]}, " in text
        assert paths[-1] in text


def test_each_text_of_the_layout_is_tested_for_size_or_has_no_foreign_text():
    tested = {
        "prompt",
        "event",
        "thinking",
        "notes",
        "code",
        "call",
        "edited",
        "notice",
        "raw",
        "answer",
        "status",
        "block",
    }
    tested |= {
        "note",
        "stage",
        "closing",
        "feedback",
        "card",
        "rows",
        "stub",
        "hidden",
        "clipped",
        "memory",
        "plans",
        "forked",
    }
    elsewhere = {"checkpoint"}
    plain = {"name", "opening", "round", "end", "outcome", "takeover", "pruned", "steered"}
    plain |= {"shows_text", "shows_call", "shows_event"}
    assert set(STANDARD.__struct_fields__) == tested | elsewhere | plain


@given(st.lists(st.text(max_size=100), max_size=100))
def test_the_calls_of_a_fork_are_one_line_that_a_compaction_carries_whole(titles: list[str]):
    calls = [
        LastingCall(
            tool="mail.send",
            call=f"tc_{n}",
            effect="once",
            turn_id="turn_1",
            iteration=0,
            n=n,
            at="",
            title=title,
        )
        for n, title in enumerate(titles)
    ]
    text = STANDARD.forked(calls)
    assert bool(text) == bool(calls)
    assert len(text.splitlines()) == (2 if calls else 0)
    assert len(text.encode()) <= CARRIED_BYTES
    assert forged(text) == []


@given(st.text(max_size=300), st.integers(1, 400))
def test_a_text_is_whole_or_says_that_it_is_not(unit: str, times: int):
    text = unit * times
    shown = render_text(text, "USER MESSAGE")
    assert is_short(text) == ("PREVIEW TRUNCATED]" not in shown.splitlines()[0])
    assert len(shown.encode()) <= TEXT_BYTES + 400
    assert forged(shown) == []


def test_a_long_message_shows_its_beginning_and_its_end():
    text = f"First this.\n{'filler ' * 9_000}\nAnd last that?"
    shown = render_text(text, "USER MESSAGE")
    assert shown.startswith(f"[USER MESSAGE PREVIEW TRUNCATED]\nfull_text_chars: {len(text)}\n")
    assert "\n  First this.\n" in shown
    assert shown.endswith("\n  And last that?\n")
    (gap,) = [line for line in shown.splitlines() if line.startswith("...[truncated]: ")]
    assert "react.read shows all of it by its path" in gap


def test_a_long_result_states_its_size_and_how_to_continue():
    text = "\n".join(f"row {n}" for n in range(2_000))
    shown = render_result_text(text, "tc:turn_1.tc_1.result").splitlines()
    assert shown[:4] == [
        "[TOOL RESULT PREVIEW TRUNCATED]",
        f"full_text_chars: {len(text)}",
        f"full_text_bytes: {len(text)}",
        f"tokens_estimate: {estimate_tokens(text)}",
    ]
    lines = text[:RESULT_PREVIEW_CHARS].count("\n") + 1
    assert f"preview_lines: 1-{lines} of 2000" in shown
    assert shown[-1].endswith(f"from offset_text_symbols {RESULT_PREVIEW_CHARS}")


@given(values)
def test_a_shape_is_four_levels_of_ten_children(value: Any):
    text = json.dumps(value)
    shape = render_shape(text)
    assert bool(shape) == isinstance(value, list | dict)
    depths = [(len(line) - len(line.lstrip(" "))) // 2 for line in shape.splitlines()]
    assert max(depths, default=0) <= 3
    assert len(depths) <= 1 + 11 + 110 + 1_100
    assert len(render_glimpse(text)) <= GLIMPSE_CHARS
    assert len(render_glimpse(text).splitlines()) <= 1


def test_text_that_is_not_json_has_no_shape():
    for text in ("plain", "[not json", '"text"', "", "[" * 5_000, "{" + " " * 3_000_000):
        assert parse_json(text) is None
        assert render_shape(text) == ""


@given(st.text(max_size=3_000))
def test_a_replacement_has_240_tokens_at_most(text: str):
    fitted = fit_replacement(text)
    assert estimate_tokens(STANDARD.hidden(Piece(kind="result", n=1, turn=1, text=""), fitted)) <= 240 + 20
    assert fit_replacement(fitted) == fitted


@given(st.text(max_size=300), st.integers(2, 200))
def test_a_fitted_text_is_indented_and_about_as_long_as_requested(text: str, chars: int):
    shown = fit_text(text, chars)
    assert all(line.startswith("  ") for line in shown.splitlines())
    assert len(shown) <= 3 * chars + 2
    if len(text) <= chars and "…" in shown:
        assert "…" in text
