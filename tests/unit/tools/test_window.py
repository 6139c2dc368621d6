from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepline.tools.window import TextRange, TextWindow, count_lines, find_part, fit_window

texts = st.text(
    alphabet=st.sampled_from(["a", "é", "語", "😀", "\n", "\r", " ", "\t", "7"]), min_size=1, max_size=200
)
spans = st.one_of(
    st.builds(TextRange, line=st.integers(1, 40), line_count=st.none() | st.integers(1, 40)),
    st.builds(TextRange, offset=st.integers(0, 200), chars=st.none() | st.integers(1, 200)),
)
modes = st.sampled_from(["lines", "sparsed", "disabled"])
GUTTER = re.compile(r"^ *\d+\t", re.MULTILINE)


@st.composite
def parts(draw: st.DrawFn) -> tuple[str, TextWindow]:
    text = draw(texts)
    offset = draw(st.integers(0, len(text) - 1))
    return text, part_of(text, offset=offset, chars=draw(st.integers(1, len(text) - offset)))


def part_of(text: str, *, max_chars: int = 1000, **span: Any) -> TextWindow:
    part = find_part([text], TextRange(**span), max_chars=max_chars).part
    assert part is not None
    return part


@given(texts, spans, st.integers(1, 300))
def test_the_found_part_is_the_requested_part(text, span, max_chars):
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if span.offset is None:
        wanted = "".join(lines[span.line - 1 :][: span.line_count])
        start = sum(map(len, lines[: span.line - 1]))
    else:
        wanted, start = text[span.offset :][: span.chars], span.offset
    found = find_part([text], span, max_chars=max_chars)
    assert (found.size.offset, found.size.line_before) == (len(text), count_lines(text))
    if not wanted:
        assert found.part is None
    else:
        assert found.part is not None
        assert (found.part.start.offset, found.part.text) == (start, wanted[:max_chars])
        assert found.end.offset == start + len(wanted)


@given(texts, spans, st.integers(1, 300), st.lists(st.integers(0, 200), max_size=5))
def test_the_pieces_of_a_text_do_not_affect_its_window(text, span, max_chars, cuts):
    ends = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(ends)]
    assert find_part(pieces, span, max_chars=max_chars) == find_part([text], span, max_chars=max_chars)


@given(parts(), st.integers(1, 400), modes)
def test_a_window_never_exceeds_its_caps(whole, max_bytes, mode):
    _, part = whole
    window = fit_window(part, max_bytes=max_bytes, line_numbers=mode)
    assert part.text.startswith(window.text)
    assert not window.text or len(window.render().encode()) <= max_bytes


@given(parts(), st.integers(1, 400))
def test_a_window_without_numbers_is_as_long_as_the_caps_allow(whole, max_bytes):
    _, part = whole
    window = fit_window(part, max_bytes=max_bytes, line_numbers="disabled")
    longer = part.text[: len(window.text) + 1]
    assert window.text == part.text or len(longer.encode()) > max_bytes


@given(parts(), modes)
def test_a_window_shows_the_sources_characters_and_nothing_else_of_it(whole, mode):
    text, part = whole
    window = fit_window(part, max_bytes=100_000, line_numbers=mode)
    source = text[window.start.offset : window.end.offset]
    assert "".join(text for _, text in window.lines()) == source
    if mode == "lines":
        shown = [line.partition("\t")[2] for line in window.render().split("\n")]
        assert "\n".join(shown) == source
    if mode == "disabled":
        assert window.render() == source


@given(parts())
def test_every_numbered_line_is_the_line_of_that_number(whole):
    text, part = whole
    lines = text.split("\n")
    for number, shown in part.lines():
        assert shown.removesuffix("\n") in lines[number - 1]


@given(parts())
def test_whole_and_partial_lines_are_distinguished(whole):
    text, window = whole
    found = window.whole_lines()
    touched = [number for number, _ in window.lines()]
    shown_whole = list(range(found[0], found[1] + 1)) if found else []
    assert sorted(shown_whole + window.partial_lines()) == touched
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    shown = dict(window.lines())
    assert [number for number in touched if shown[number] == lines[number - 1]] == shown_whole


@given(texts, st.integers(1, 40), st.integers(8, 60), st.sampled_from(["lines", "disabled"]))
def test_windows_that_begin_where_the_last_one_ended_tile_the_text(text, max_chars, max_bytes, mode):
    at, seen = 0, ""
    while at < len(text):
        part = part_of(text, offset=at, max_chars=max_chars)
        window = fit_window(part, max_bytes=max_bytes + 4, line_numbers=mode)
        assert window.text
        seen, at = seen + window.text, window.end.offset
    assert seen == text


@given(st.one_of(texts, st.just("")))
def test_lines_are_counted_and_found_alike(text):
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    assert count_lines(text) == len(lines)
    assert [part_of(text, line=n + 1, line_count=1).text for n in range(len(lines))] == lines


def test_a_sparse_gutter_numbers_the_ends_and_the_middle():
    part = part_of("".join(f"line {n}\n" for n in range(1, 21)))
    shown = fit_window(part, max_bytes=1000, line_numbers="sparsed").render()
    assert [int(number) for number in GUTTER.findall(shown)] == [1, 2, 10, 11, 19, 20]


def test_the_notation_names_whole_lines_only():
    text = "one\ntwo\nthree\n"
    assert part_of(text, offset=0, chars=6).notation() == "[1-1]/3"
    assert part_of(text, offset=1, chars=2).notation() == "[none]/3"
    assert part_of(text, offset=1, chars=2).partial_lines() == [1]
    assert part_of(text, offset=2, chars=8).partial_lines() == [1, 3]
