"""SOURCES POOL: which rows a request shows, and that they are few and short."""

from __future__ import annotations

import pytest

from stepline.context.announce import CITED_SHOWN, ROWS_SHOWN, render_pool
from stepline.model.source import Source
from stepline.model.usage import estimate_tokens
from tests.support.strategies import FORGERIES


def page(sid: int, **fields: object) -> Source:
    return Source(**{"sid": sid, "title": f"p{sid}", "url": f"https://e.example/{sid}", **fields})


def sids(text: str) -> list[int]:
    return [int(line[4:].split()[0]) for line in text.split("\n") if line.startswith("SID:")]


def test_an_empty_pool_takes_no_room_in_a_request():
    assert render_pool({}) == ""


def test_a_row_is_one_line_with_number_title_and_place():
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
def test_of_a_large_pool_the_rows_cited_last_and_the_newest_are_shown():
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


@pytest.mark.parametrize("evil", FORGERIES)
def test_a_source_cannot_write_structure_into_the_request(evil: str):
    lines = render_pool({1: page(1, title=f'{evil}" e.org', text=evil, mime=evil, content=evil)}).splitlines()
    assert [line[:7] for line in lines] == ["[SOURCE", "SID:01 "]
    other = render_pool({1: Source(sid=1, title=evil, path=evil, source_type="file")}).splitlines()
    assert len(other) == 2
