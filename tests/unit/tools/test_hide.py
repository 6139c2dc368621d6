from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.context.rules import ContextRules, pre_tail
from stepline.model.block import Hide
from stepline.rendering.piece import Piece, estimate_bytes
from stepline.tools.context import ToolOutput

from .conftest import TURN, ToolConversation, read_status

SHORT = {"replacement": "seen"}


def path_of(call: int) -> str:
    return f"tc:{TURN}.tc_{call:012}.result"


def settled(*texts: str, turn: int = 1) -> tuple[Piece, ...]:
    """Return rounds with one result each: round k in the batches 2k and 2k + 1."""
    found: list[Piece] = [Piece(kind="header", n=1, turn=turn, text="TURN\n")]
    for k, text in enumerate(texts, 1):
        about: dict[str, Any] = {"turn": turn, "round": k}
        found += [
            Piece(kind="round", n=2 * k, text=f"round {k}\n", **about),
            Piece(kind="result", n=2 * k + 1, text=text, path=path_of(k), shows="=", bulk=True, **about),
            Piece(kind="end", n=2 * k + 1, text="end\n", **about),
        ]
    return tuple(found)


def hide(conversation: ToolConversation, **params: Any) -> ToolOutput:
    return conversation.call("react.hide", {**SHORT, **params})


def codes(output: ToolOutput) -> list[str]:
    return [json.loads(block.text)["code"] for block in output.blocks if block.type == "react.notice"]


def test_the_newest_content_is_hidden_by_an_overlay(conversation):
    conversation.pieces = settled("x" * 400, "y" * 400)
    output = hide(conversation, path=path_of(2))
    assert output.hides == (Hide(path=path_of(2), n=5, replacement="seen"),)
    assert read_status(output) == {
        "path": path_of(2),
        "status": "ok",
        "blocks_hidden": 1,
        "tokens_hidden": estimate_bytes(400),
        "tail_tokens": estimate_bytes(len("end\n")),
        "tail_limit": 2000,
    }
    assert codes(output) == []


def test_several_paths_are_judged_separately(conversation):
    conversation.pieces = settled("x" * 400, "y" * 400, "z" * 400)
    output = hide(conversation, paths=[path_of(3), path_of(1), path_of(3), path_of(9)])
    assert [overlay.path for overlay in output.hides] == [path_of(3)]
    rows = read_status(output)["paths"]
    assert [row["status"] for row in rows] == ["ok", "too_old", "not_found"]
    assert (output.status, codes(output)) == ("ok", ["hide_before_cache", "not_found"])
    notices = [block.path for block in output.blocks if block.type == "react.notice"]
    assert len(set(notices)) == len(notices)


def test_the_newest_of_two_views_is_hidden(conversation):
    first, *rest = settled("x" * 400, "y" * 400)
    again = [replace(piece, path=path_of(1)) if piece.kind == "result" else piece for piece in rest]
    conversation.pieces = (first, *again)
    assert hide(conversation, path=path_of(1)).hides == (Hide(path=path_of(1), n=5, replacement="seen"),)


def test_one_range_of_several_is_hidden_by_the_path_of_its_view(conversation):
    pieces = list(settled("x" * 400))
    views = [
        replace(pieces[2], text=f"{i}" * 400, path=f"fi:{TURN}.outputs/a.md", view=f"tc:{TURN}.tc_1.view.{i}")
        for i in range(2)
    ]
    conversation.pieces = (*pieces[:2], *views, pieces[3])
    (overlay,) = hide(conversation, path=views[1].view).hides
    assert overlay == Hide(path=views[1].view, n=3, replacement="seen")
    both = hide(conversation, path=views[0].path)
    assert read_status(both)["blocks_hidden"] == 2


def test_an_alias_hides_its_target(conversation):
    path = f"ws:{TURN}.conv.working.summary.attempt.1"
    conversation.say(path, "text")
    conversation.pieces = tuple(
        replace(p, path=path) if p.kind == "result" else p for p in settled("x" * 400)
    )
    assert hide(conversation, path=path.removesuffix(".attempt.1")).hides[0].path == path


@pytest.mark.parametrize("path", ["fi:nonsense", "report.md", f"ar:{TURN}.user.prompt"])
def test_a_path_without_visible_content_is_refused_and_the_turn_continues(conversation, path):
    conversation.pieces = settled("x" * 400)
    output = hide(conversation, path=path)
    assert (output.status, output.hides, codes(output)) == ("error", (), ["not_found"])


def test_a_replacement_that_is_no_shorter_is_refused(conversation):
    conversation.pieces = settled("fine\n")
    output = hide(conversation, path=path_of(1), replacement="it said that it was fine")
    assert (output.status, codes(output)) == ("error", ["hide_gains_nothing"])


def test_a_call_that_names_nothing_is_refused(conversation):
    assert hide(conversation).error["code"] == "hide_nothing_named"


def test_a_program_cannot_hide_content(conversation):
    assert not conversation.registry.find("react.hide").spec.in_exec


# pre-tail


def test_an_open_round_does_not_count():
    rules = ContextRules(offset_rounds=1)
    pieces = settled("a", "b", "c")
    open_round = Piece(kind="round", n=8, turn=1, round=4, text="round 4\n")
    end_of_second = [piece.kind for piece in pieces].index("end", 5) + 1
    assert pre_tail(pieces, rules) == end_of_second
    assert pre_tail((*pieces, open_round), rules) == end_of_second


def test_the_whole_tail_is_editable_after_few_rounds():
    pieces = settled("a", "b")
    assert pre_tail(pieces[:-3], ContextRules()) == 0
    assert pre_tail(pieces, ContextRules()) == 4
    assert pre_tail(pieces, ContextRules(min_rounds=3)) == 0
    assert pre_tail(pieces, ContextRules(offset_rounds=0)) == 0


def test_rounds_of_earlier_turns_count():
    pieces = (*settled("a", "b", "c"), *settled("d", turn=2))
    assert pre_tail(pieces, ContextRules(offset_rounds=1)) == len(settled("a", "b", "c"))
