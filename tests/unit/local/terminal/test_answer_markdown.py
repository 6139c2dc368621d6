"""Answers on a terminal in scripts without blanks between words, and with formulas."""

# ruff: noqa: RUF001 - the letters are meant

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.local.client.change import TurnEnded
from stepline.local.terminal.answer_parser import make_parser
from stepline.local.terminal.turn_view import RichView
from tests.unit.local.terminal.recorded_surface import RecordedSurface

LETTERS = st.sampled_from(["内容", "正文は", "です", "カタカナ", "합니다", "𠮷野", "ครับ"])
PAIRS = st.sampled_from(
    [
        "「」",
        "『』",
        "（）",
        "【】",
        "“”",
        '""',
        "()",
        ("", "："),
        ("", "。"),
        ("", "！"),
        ("", "……"),
        ("", "%"),
        ("$", ""),
    ]
)
MARKS = st.sampled_from([("**", "strong"), ("*", "em"), ("~~", "s")])


def printed(answer: str) -> str:
    paper = RecordedSurface()
    RichView(paper).show(TurnEnded(n=2, turn_id="turn_1", outcome="completed", answer=answer))
    return paper.printed()


@given(LETTERS, PAIRS, LETTERS, LETTERS, MARKS)
def test_emphasis_begins_and_ends_at_any_punctuation(before, pair, inner, after, marks):
    mark, tag = marks
    text = f"{pair[0]}{inner}{pair[1]}"
    parser = make_parser(enable=("strikethrough",))
    assert parser.render(f"{before}{mark}{text}{mark}{after}") == parser.render(before).replace(
        f"{before}</p>", f"{before}<{tag}>{text}</{tag}>{after}</p>"
    ).replace('"', "&quot;")


def test_an_answer_is_printed_without_the_marks_of_its_emphasis():
    assert "注意：正文，「重点」的" in printed("**注意：**正文，**「重点」**的")


@pytest.mark.parametrize("text", ["a**(b)**c", "~5 to ~10, 3~4", "2 * 3 * 4"])
def test_marks_that_are_none_stay(text):
    assert text in printed(text)


@pytest.mark.parametrize("text", [r"of \(\pi r^2\)", r"of \[\frac{a}{b} = c\]", r"of \(O(n)\)"])
def test_formulas_keep_their_marks(text):
    assert text in printed(text)


def test_brackets_about_words_are_brackets():
    assert "a (remark) and a [note]" in printed(r"a \(remark\) and a \[note\]")


def test_the_parser_of_documents_and_that_of_the_terminal_are_one_text():
    root = Path(__file__).parents[4]
    twins = (
        "exec_task/executor/documents/parser.py",
        "layers/runtime/python/stepline/local/terminal/answer_parser.py",
    )
    bodies = [(root / path).read_text(encoding="utf-8").split('"""', 2)[2] for path in twins]
    assert bodies[0] == bodies[1]
