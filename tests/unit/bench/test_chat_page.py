"""The rows made of the measurements of the chat page; the measured values are not tested."""

from __future__ import annotations

import pytest

from bench.browser_pages import compressed, loaded_by
from bench.chat_page import PIECE_CHARS, Found, cut, longest_task_ms, make_answer, make_rows
from bench.row import CHAT_PAGE, MeasureError, missing


def a_task(ms, *, tid=1, **more):
    return {"name": "RunTask", "pid": 7, "tid": tid, "dur": 9_000, "tdur": ms * 1000} | more


MAIN = {"name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "CrRendererMain"}}


def test_each_metric_has_a_row_even_without_a_value():
    rows = make_rows(Found(), "the peers cannot be built: no network", "no Chromium on this machine")
    assert [row.metric for row in rows] == [f"chat_page_{what}" for what in CHAT_PAGE]
    assert not [metric for metric in missing(rows) if metric.startswith("chat_page_")]
    assert {row.value for row in rows} == {None}
    assert all("no Chromium" in row.note for row in rows)


def test_a_row_without_peers_says_why():
    found = Found()
    found.take("gzip", "page", 100.0)
    [row] = [
        row
        for row in make_rows(found, "the peers cannot be built: E404", "")
        if row.metric == "chat_page_gzip"
    ]
    assert (row.value, row.peers, row.met) == (100.0, {}, True)
    assert "E404" in row.note


def test_the_renderer_is_ours_in_its_own_rows_and_others_have_their_names():
    found = Found()
    for page, value in {"renderer": 2.0, "streamdown": 11.0}.items():
        found.take("renderer_piece", page, value, "a note")
    [row] = [row for row in make_rows(found, "", "") if row.metric == "chat_page_renderer_piece"]
    assert (row.value, row.peers) == (2.0, {"Streamdown": 11.0})
    assert row.note == "ours a note; Streamdown a note"


def test_the_longest_task_is_the_main_threads_by_its_cpu_time():
    events = [MAIN, a_task(12), a_task(30), a_task(90, tid=2), a_task(99, name="Layout")]
    assert longest_task_ms(events) == 30
    with pytest.raises(MeasureError):
        longest_task_ms([MAIN])


def test_an_answer_is_of_its_size_and_its_pieces_join_to_it():
    answer = make_answer(40_000)
    assert 40_000 < len(answer) < 42_000
    assert "".join(cut(answer, PIECE_CHARS)) == answer
    assert answer.isascii()


def test_a_page_loads_the_scripts_and_styles_that_it_names(tmp_path):
    (tmp_path / "assets").mkdir()
    page = tmp_path / "index.html"
    page.write_text(
        '<link rel="icon" href="/icon.svg"><script type="module" crossorigin src="/assets/a.js"></script>'
        '<link rel="modulepreload" crossorigin href="/assets/b.js"><link rel="stylesheet" href="/assets/c.css">'
    )
    assert [file.name for file in loaded_by(page)] == ["a.js", "b.js", "c.css"]


def test_files_are_compressed_separately(tmp_path):
    file = tmp_path / "a.js"
    file.write_text("let answer = 1;\n" * 500)
    once, twice = compressed([file]), compressed([file, file])
    assert twice == (2 * once.gzip, 2 * once.brotli)
    assert once.gzip < 200
