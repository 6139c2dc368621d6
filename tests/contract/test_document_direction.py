"""Documents in scripts from right to left, with joined letters, and in scripts that the fonts do not have."""

# ruff: noqa: RUF001 - the letters are meant

from __future__ import annotations

from unicodedata import normalize

import pytest

from tests.contract.drawn_documents import call, codes, drawing

WORDS = " ".join(f"מילה{n}" for n in range(60))
LINES = {
    "מרחב": "בחרמ",
    "שלום עולם": "םלועםולש",
    "# שלום": "םולש",
    "- שלום": "םולש•",
    "> שלום": "םולש",
    "של**ום ע**ולם": "םלועםולש",
    "שלום *עולם*": "םלועםולש",
    "A heron, אנפה, wades.": "Aheron,הפנא,wades.",
    "שלום, 12.5%": "12.5%,םולש",
    "שלום `x = 1` עולם": "םלועx=1םולש",
    '```\nname = "שלום"\n```': 'name="םולש"',
}
"""Texts, and how the eye finds them from left to right."""

UNDRAWN = [
    ("鷺", "characters_not_in_font", "CJK"),
    ("नमस्ते", "characters_not_in_font", "Devanagari"),
    ("สวัสดี `ไทย`", "characters_not_in_font", "Thai"),
    ("ߒߞߏ", "letters_not_joined", "Nko"),
    ("ڕۆژ", "letters_not_joined", "Arabic"),
]
ARABIC, TABLE = "سعيد", "| אחת | שתים |\n|---|---|\n| 1 | 2 |"
OTHERS = ("docx", "pptx", "xlsx", "html")
STARS = "含**「重点」**内容"


def turned(word: str) -> str:
    return f"{word} (1)\n\n| {word} |\n|---|\n| {word} |"


@pytest.fixture(scope="module")
def drawn():
    """Documents by their kind and content, drawn by one program."""
    asked = [("pdf", content) for content in (*LINES, WORDS, ARABIC, TABLE, *(one[0] for one in UNDRAWN))]
    asked += [(kind, turned(word)) for kind in OTHERS for word in ("שלום", "peace")]
    asked.append(("docx", STARS))
    with drawing() as on:
        return dict(zip(asked, on.draw_all([(kind, call(kind, text)) for kind, text in asked]), strict=True))


def lines(found: dict) -> list[str]:
    """Return the lines of a PDF's first page without the page's number."""
    return found["read"]["drawn"][:-1]


@pytest.mark.parametrize("content", LINES)
def test_letters_from_right_to_left_are_drawn_so(drawn, content):
    found = drawn["pdf", content]
    assert (lines(found), codes(found)) == ([LINES[content]], [])


def test_a_long_paragraph_begins_at_the_top_and_every_line_at_the_right(drawn):
    found = lines(drawn["pdf", WORDS])
    numbers = [line.removesuffix("הלימ").split("הלימ")[::-1] for line in found]
    assert len(found) > 2
    assert [number for line in numbers for number in line] == [str(n) for n in range(60)]


def test_letters_of_arabic_are_joined(drawn):
    (line,) = lines(drawn["pdf", ARABIC])
    assert normalize("NFKC", line) == ARABIC[::-1]
    assert codes(drawn["pdf", ARABIC]) == []


def test_a_table_begins_at_the_right_if_its_head_does(drawn):
    assert lines(drawn["pdf", TABLE]) == ["םיתשתחא", "21"]


@pytest.mark.parametrize("kind", OTHERS)
def test_the_other_formats_say_which_way_a_text_runs(drawn, kind):
    there, none = (drawn[kind, turned(word)]["read"]["turned"] for word in ("שלום", "peace"))
    assert there > 0
    assert none == 0


@pytest.mark.parametrize(("content", "code", "script"), UNDRAWN)
def test_letters_that_cannot_be_drawn_as_written_are_a_warning_that_names_the_script(
    drawn, content, code, script
):
    found = drawn["pdf", content]
    assert codes(found) == [code]
    assert script in found["warnings"][0]["message"]


def test_emphasis_beside_a_script_without_blanks_is_no_star(drawn):
    assert "含「重点」内容" in drawn["docx", STARS]["read"]["text"]
