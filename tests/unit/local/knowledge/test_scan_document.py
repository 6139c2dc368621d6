"""A file as a document: front matter, headings outside fences, sections that cover all of the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.local.knowledge.scan_document import scan_document


def scan(text, name="ks:docs/a.md"):
    return scan_document(name, "docs", text.encode())


def heads(text):
    return [(section.heading, section.line) for section in scan(text).sections]


def test_headings_cut_a_text_and_keep_those_above_them():
    assert heads("Before.\n\n# One\n\n## Two\n\n### Three\n\n## Four ##\n") == [
        ("", 1),
        ("One", 3),
        ("One / Two", 5),
        ("One / Two / Three", 7),
        ("One / Four", 9),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n",
        "~~~sh\n# no\n```\n# no\n~~~\n",
        "````\n```\n# no\n````\n",
        "    # indented\n",
        "#hashtag\n",
        "####### seven\n",
    ],
)
def test_code_is_no_heading(text):
    assert [heading for heading, _ in heads(f"# One\n\n{text}\n# Two\n")] == ["One", "Two"]


def test_front_matter_describes_and_is_no_section():
    found = scan(
        "---\ntitle: A\nsummary: B\ntags: x, y\nkeywords: [z, 1]\nid: 7\nsee_also: c.md\n---\n# Other\n"
    )
    assert (found.title, found.summary, found.id) == ("A", "B", "7")
    assert (found.tags, found.keywords, found.see_also) == (("x", "y"), ("z", "1"), ("c.md",))
    assert [(section.heading, section.line) for section in found.sections] == [("Other", 9)]


@pytest.mark.parametrize("text", ["---\n[\n---\nText.\n", "---\nno end\n", "---\n- a\n---\nText.\n"])
def test_invalid_front_matter_is_text(text):
    assert scan(text).sections[0].start == 0


@pytest.mark.parametrize(
    "written", ["date: 2026-13-45", "tags: !!int x", f"a: {'1' * 5_000}", f"a: {'[' * 3_000}"]
)
def test_front_matter_with_a_value_that_is_none_is_text(written):
    found = scan(f"---\n{written}\n---\n# A\n")
    assert (found.title, found.sections[0].start) == ("A", 0)


def test_a_number_that_python_does_not_write_is_no_title():
    assert scan(f"---\ntitle: 0x{'f' * 5_000}\n---\n# A\n").title == "A"


def test_without_front_matter_the_first_heading_and_paragraph_describe():
    found = scan("\n# One `x`\n\n| a |\n|---|\n\nIt is said\nhere.\n\nNot here.\n")
    assert (found.title, found.summary) == ("One `x`", "It is said here.")
    assert (scan("Only text.\n").title, scan("Only text.\n").summary) == ("a", "Only text.")


@given(st.lists(st.sampled_from(["# A", "```", "~~~", "---", "", "text", "## B ##", "\r", "#", "   ### C"])))
def test_sections_are_all_of_a_text_in_order(lines):
    found = scan("\n".join(lines))
    ends = [section.end for section in found.sections]
    assert [section.start for section in found.sections[1:]] == ends[:-1]
    assert ends[-1:] == [len(found.text)] * bool(ends)
    assert not found.text[: found.sections[0].start].strip() or found.text.startswith("---\n")
