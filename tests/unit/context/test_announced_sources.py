"""SOURCES POOL: which rows a request shows, and that they are few and short."""

from __future__ import annotations

import pytest

from stepline.context.announce import (
    CITED_SHOWN,
    ROWS_SHOWN,
    TEXT_CHARS,
    TEXT_MIN_CHARS,
    render_pool,
)
from stepline.model.source import Source
from stepline.model.usage import estimate_tokens
from tests.support.strategies import FORGERIES


def page(sid: int, **fields: object) -> Source:
    return Source(**{"sid": sid, "title": f"p{sid}", "url": f"https://e.example/{sid}", **fields})


def sids(text: str) -> list[int]:
    return [int(line[4:].split()[0]) for line in text.split("\n") if line.startswith("SID:")]


def test_an_empty_pool_takes_no_room_in_a_request():
    assert render_pool({}) == ""


def test_a_row_is_one_line_with_number_title_and_location():
    chart = Source(
        title="chart.png", source_type="file", mime="image/png", path="fi:turn_1.outputs/chart.png"
    )
    rows = {1: page(1, title="T" * 50, text="x " * 300, mime="text/html"), 12: page(12), 3: chart}
    rows[3] = Source(sid=3, title=chart.title, source_type="file", mime=chart.mime, path=chart.path)
    assert render_pool(rows) == (
        "[SOURCES POOL] 3 sources\n"
        f'SID:01 "{"T" * 35}…" e.example\n'
        'SID:03 "chart.png" image/png fi:turn_1.outputs/chart.png\n'
        'SID:12 "p12" e.example\n'
    )


# The pool was shown whole in every round.
def test_a_large_pool_shows_the_last_cited_and_the_newest_rows():
    pool = {sid: page(sid) for sid in range(1, 101)}
    shown = render_pool(pool, {sid: 50 - sid for sid in range(1, 20)} | {999: 60})
    assert sids(shown) == [*range(1, CITED_SHOWN + 1), *range(100 - (ROWS_SHOWN - CITED_SHOWN) + 1, 101)]
    assert shown.startswith(
        f"[SOURCES POOL] 100 sources: {ROWS_SHOWN} cited or newest ones; the other {100 - ROWS_SHOWN} "
        "at so:sources_pool\n"
    )


def test_a_pool_of_a_hundred_sources_is_small():
    pool = {
        sid: page(
            sid, title="A title that is longer than what is shown of it", url=f"https://w{sid}.example.org/a"
        )
        for sid in range(1, 101)
    }
    assert estimate_tokens(render_pool(pool, dict.fromkeys(range(30, 40), 5))) <= 250


# A row without a text says little to a model that cited it twenty rounds ago.
def test_only_a_cited_row_has_a_short_text():
    pool = {sid: page(sid, text=f"What page {sid} says. " * 50) for sid in (1, 2)}
    first, second = render_pool(pool, {1: 5}).splitlines()[1:]
    assert first == f'SID:01 "p1" e.example "{("What page 1 says. " * 50)[: TEXT_CHARS - 1].rstrip()}…"'
    assert second == 'SID:02 "p2" e.example'


def test_a_cited_page_without_a_snippet_shows_how_its_text_begins():
    pool = {1: page(1, content="It begins so.")}
    assert render_pool(pool, {1: 5}).endswith('e.example "It begins so."\n')


def test_two_texts_take_the_room_of_a_row():
    pool = {sid: page(sid, text="words " * 90) for sid in range(1, 101)}
    shown = render_pool(pool, {1: 5, 2: 6, 3: 7, 4: 8})
    assert sids(shown) == [1, 2, 3, 4, 97, 98, 99, 100]
    assert shown.startswith(
        "[SOURCES POOL] 100 sources: 8 cited or newest ones; the other 92 at so:sources_pool\n"
    )


@pytest.mark.parametrize("cited", range(5))
def test_a_pool_of_a_hundred_sources_is_small_with_its_texts(cited: int):
    pool = {
        sid: page(
            sid,
            title="A title that is longer than what is shown of it",
            url=f"https://w{sid}.example.org/a",
            text="A text that is longer than what is shown of it. " * 9,
        )
        for sid in range(1, 101)
    }
    text = render_pool(pool, dict.fromkeys(range(30, 30 + cited), 5))
    assert estimate_tokens(text) <= 250
    texts = [
        line.rpartition(' "')[2] for line in text.splitlines() if line.endswith('…"') and line.count('"') == 4
    ]
    assert [len(found) > TEXT_MIN_CHARS for found in texts] == [True] * cited


@pytest.mark.parametrize("evil", FORGERIES)
def test_a_source_cannot_write_structure_into_the_request(evil: str):
    lines = render_pool({1: page(1, title=f'{evil}" e.org', text=evil, mime=evil, content=evil)}).splitlines()
    assert [line[:7] for line in lines] == ["[SOURCE", "SID:01 "]
    cited = render_pool({1: page(1, title=evil, text=evil)}, {1: 4}).splitlines()
    assert [line[:7] for line in cited] == ["[SOURCE", "SID:01 "]
    other = render_pool({1: Source(sid=1, title=evil, path=evil, source_type="file")}).splitlines()
    assert len(other) == 2
