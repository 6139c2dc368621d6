from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from stepline.tools.window import SourceText, Window, count_lines, fit_window

texts = st.text(
    alphabet=st.sampled_from(["a", "é", "語", "😀", "\n", "\r", " ", "\t", "7"]), min_size=1, max_size=200
)
modes = st.sampled_from(["lines", "sparsed", "disabled"])
GUTTER = re.compile(r"^ *\d+\t", re.MULTILINE)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[SourceText, int, int]:
    source = SourceText(draw(texts))
    start = draw(st.integers(0, len(source.text) - 1))
    return source, start, draw(st.integers(start + 1, len(source.text)))


@given(pieces(), st.integers(1, 300), st.integers(1, 400), modes)
def test_a_window_never_exceeds_its_caps(piece, max_chars, max_bytes, mode):
    source, start, end = piece
    window = fit_window(source, start, end, max_chars=max_chars, max_bytes=max_bytes, line_numbers=mode)
    assert window.start == start
    assert start <= window.end <= min(end, start + max_chars)
    assert window.end == start or len(window.render().encode()) <= max_bytes


@given(pieces(), st.integers(1, 300), st.integers(1, 400))
def test_a_window_without_numbers_is_as_long_as_the_caps_allow(piece, max_chars, max_bytes):
    source, start, end = piece
    window = fit_window(source, start, end, max_chars=max_chars, max_bytes=max_bytes, line_numbers="disabled")
    longer = source.text[start : window.end + 1]
    assert window.end == end or len(longer) > max_chars or len(longer.encode()) > max_bytes


@given(pieces(), modes)
def test_a_window_shows_the_sources_characters_and_nothing_else_of_it(piece, mode):
    source, start, end = piece
    window = Window(source=source, start=start, end=end, line_numbers=mode)
    assert "".join(text for _, text in window.lines()) == source.text[start:end]
    if mode == "lines":
        shown = [line.partition("\t")[2] for line in window.render().split("\n")]
        assert "\n".join(shown) == source.text[start:end]
    if mode == "disabled":
        assert window.render() == source.text[start:end]


@given(pieces(), modes)
def test_every_numbered_line_is_the_line_of_that_number(piece, mode):
    source, start, end = piece
    window = Window(source=source, start=start, end=end, line_numbers=mode)
    lines = source.text.split("\n")
    for number, shown in window.lines():
        assert shown.removesuffix("\n") in lines[number - 1]


@given(pieces())
def test_whole_and_partial_lines_are_told_apart(piece):
    source, start, end = piece
    window = Window(source=source, start=start, end=end, line_numbers="lines")
    whole = window.whole_lines()
    touched = [number for number, _ in window.lines()]
    shown_whole = list(range(whole[0], whole[1] + 1)) if whole else []
    assert sorted(shown_whole + window.partial_lines()) == touched
    lines = source.text.splitlines(keepends=True) if "\r" not in source.text else None
    if lines and whole:
        assert "".join(lines[whole[0] - 1 : whole[1]]) in source.text[start:end]


@given(texts, st.integers(1, 40), st.integers(8, 60), st.sampled_from(["lines", "disabled"]))
def test_windows_that_begin_where_the_last_one_ended_tile_the_text(text, max_chars, max_bytes, mode):
    source, at, seen = SourceText(text), 0, ""
    while at < len(text):
        window = fit_window(
            source, at, len(text), max_chars=max_chars, max_bytes=max_bytes + 4, line_numbers=mode
        )
        assert window.end > at
        seen, at = seen + window.text, window.end
    assert seen == text


@given(st.one_of(texts, st.just("")))
def test_lines_are_counted_and_found_alike(text):
    source = SourceText(text)
    assert len(source.starts) == count_lines(text) == len(re.findall(r"[^\n]*\n|[^\n]+", text))
    assert "".join(text[start : source.line_end(i + 1)] for i, start in enumerate(source.starts)) == text


def test_a_sparse_gutter_numbers_the_ends_and_the_middle():
    source = SourceText("".join(f"line {n}\n" for n in range(1, 21)))
    shown = Window(source=source, start=0, end=len(source.text), line_numbers="sparsed").render()
    assert [int(number) for number in GUTTER.findall(shown)] == [1, 2, 10, 11, 19, 20]


def test_the_notation_names_whole_lines_only():
    source = SourceText("one\ntwo\nthree\n")
    assert Window(source=source, start=0, end=6, line_numbers="lines").notation() == "[1-1]/3"
    assert Window(source=source, start=1, end=3, line_numbers="lines").notation() == "[none]/3"
    assert Window(source=source, start=1, end=3, line_numbers="lines").partial_lines() == [1]
    assert Window(source=source, start=2, end=10, line_numbers="lines").partial_lines() == [1, 3]
