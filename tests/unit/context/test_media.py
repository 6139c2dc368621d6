"""Pictures and documents of a request: their selection, and their position after the cached parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.context.media import (
    NEWEST,
    REQUEST_BYTES,
    SHARE,
    choose_media,
    media_bytes,
    newest_media,
    render_file,
    render_media,
)
from stepline.context.rules import ContextRules
from stepline.model.block import Body
from stepline.ports.model import Media, Part
from stepline.rendering.piece import Attached
from tests.support.files import read_of
from tests.support.log_builder import LogBuilder, logs, patient
from tests.unit.context.caching_provider import ask_all, exact_rules

RULES = ContextRules()
HALF = int(RULES.budget * SHARE)


@pytest.fixture(autouse=True, scope="module")
def _exact_rules() -> Iterator[None]:
    with exact_rules():
        yield


def file(name: str, *, tokens: int = 100, size_bytes: int = 1_000) -> Attached:
    body = Body(key=f"out/{name}", sha256=name * 64, size_bytes=size_bytes, mime="image/png")
    return Attached(path=f"fi:turn_1.outputs/{name}.png", body=body, tokens=tokens)


def names(chosen: list[Attached]) -> str:
    return "".join(one.body.sha256[0] for one in chosen)


@pytest.mark.parametrize(
    ("read", "newest"), [("", ""), ("a", "a"), ("abc", "bc"), ("aab", "ab"), ("abb", "ab"), ("aba", "ba")]
)
def test_the_two_newest_files_are_distinct_and_in_order_of_their_last_read(read: str, newest: str) -> None:
    assert names(newest_media([file(name) for name in read])) == newest


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ({"tokens": HALF - 100}, {"tokens": 100}, "ab"),
        ({"tokens": HALF}, {"tokens": 1}, "b"),
        ({"tokens": 1}, {"tokens": HALF + 1}, ""),
        ({"size_bytes": REQUEST_BYTES - 1_000}, {}, "ab"),
        ({"size_bytes": REQUEST_BYTES}, {}, "b"),
    ],
)
def test_the_newest_file_wins_if_there_is_no_room_for_both(
    first: dict[str, int], second: dict[str, int], chosen: str
) -> None:
    assert names(choose_media([file("a", **first), file("b", **second)], RULES)) == chosen


def test_a_file_that_is_left_out_has_a_line_instead() -> None:
    left, kept = render_media([file("a", tokens=HALF), file("b")], RULES)
    (line,) = render_file(left)
    assert line == Part(
        text="[NOT ATTACHED] fi:turn_1.outputs/a.png | a newer one leaves no room for it; read it alone\n"
    )
    assert render_file(kept)[1:] == (kept,)


def test_only_attached_media_cost_bytes() -> None:
    assert media_bytes([file("a", tokens=HALF), file("b", tokens=100)], RULES) == 320


@patient
@given(logs(forgetting=True))
def test_pictures_come_after_the_last_mark_of_a_request(log: LogBuilder) -> None:
    for asked in ask_all(log):
        parts = asked.rendered.content
        files = [index for index, part in enumerate(parts) if isinstance(part, Media)]
        assert len(files) <= NEWEST
        assert all(index > mark for index in files for mark in asked.marks)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_adding_or_removing_a_picture_keeps_the_cached_prefix(widths: list[int]) -> None:
    log = LogBuilder()
    log.message("look")
    for width in widths:
        log.act(("react.read", {}))
        log.result("", blocks=read_of(log.view("fi:turn_0001.outputs/a.png", ""), width=width))
    asked = ask_all(log)
    sent = [[part for part in one.rendered.content if isinstance(part, Media)] for one in asked]
    assert [len(files) for files in sent[1:]] == [
        min(NEWEST, len(set(widths[:count]))) for count in range(1, len(widths) + 1)
    ]
    assert not any(one.timeline.parts.rewritten for one in asked)
    for before, after in pairwise(asked):
        end = before.timeline.parts.ends[-1] if before.timeline.parts.ends else 0
        assert list(after.timeline.pieces[:end]) == list(before.timeline.pieces[:end])
        assert after.read >= before.held


def looked(widths: tuple[int, ...] = (900,)) -> tuple[LogBuilder, str, int]:
    """Return a conversation that read pictures, with path and batch of the last one's view."""
    log, path, n = LogBuilder(), "", 0
    log.message("look")
    for width in widths:
        log.act(("react.read", {}))
        seen = read_of(log.view(f"fi:turn_0001.outputs/{width}.png", ""), width=width)
        path, n = seen[1].path, log.result("", blocks=seen).n
    return log, path, n


def test_a_hidden_picture_is_no_longer_attached() -> None:
    log, path, n = looked()
    assert len(log.timeline().media) == 1
    log.act(("react.hide", {}))
    log.hide(path, n)
    assert log.timeline().media == []


def test_pruning_keeps_the_newest_pictures_and_stubs_the_others() -> None:
    log, _, _ = looked((700, 800, 900))
    log.answer()
    log.close()
    log.message("and now?")
    before = log.timeline()
    log.prune(keep=6, intact=1)
    after = log.timeline()
    assert [one.tokens for one in before.media] == [700, 800, 900]
    assert [one.tokens for one in after.media] == [800, 900]
    assert [piece.media is not None for piece in after.pieces if piece.view] == [False, True, True]
