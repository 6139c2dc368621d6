from __future__ import annotations

import difflib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.tools.workfiles.unified_diff import (
    HUNKS_MAX,
    Applied,
    Mismatch,
    apply_diff,
    is_diff,
    parse_diff,
    render_diff,
    split_lines,
    unfence,
)

NO_NEWLINE = "\n\\ No newline at end of file\n"
texts = st.text(st.sampled_from("ab-+@\\ \t\r\n\n\n"), max_size=60)


def diff(old: str, new: str, context: int = 3) -> str:
    lines = difflib.unified_diff(split_lines(old), split_lines(new), "a/x", "b/x", n=context)
    return "".join(line if line.endswith("\n") else line + NO_NEWLINE for line in lines)


def applied(old: str, patch: str) -> Applied:
    found = apply_diff(old, parse_diff(patch))
    assert isinstance(found, Applied), found
    return found


def misfit(old: str, patch: str) -> Mismatch:
    found = apply_diff(old, parse_diff(patch))
    assert isinstance(found, Mismatch), found
    return found


@given(texts, texts, st.sampled_from([0, 1, 3]))
@example("-- a\n", "++ a\n", 3)
@example("--- a\n+++ b\n@@ c\n", "", 3)
@example("a\r\n\r\nb", "a\r\n\r\nb\n", 0)
def test_a_diff_between_two_texts_makes_the_one_of_the_other(old, new, context):
    patch = diff(old, new, context)
    if not patch:
        return
    found = applied(old, patch)
    assert found.text == new
    assert not any(change.moved or change.loose for change in found.changes)


@given(texts, texts)
def test_the_diff_that_is_shown_is_the_one_that_was_applied(old, new):
    if patch := diff(old, new):
        shown = render_diff("x", applied(old, patch).changes)
        assert applied(old, shown).text == new
        assert [line[:1] for line in shown.split("\n")] == [line[:1] for line in patch.split("\n")]


@given(texts, texts, st.integers(0, 9), st.integers(0, 9))
def test_counts_in_a_header_do_not_matter(old, new, less, more):
    patch = diff(old, new)
    if patch.count("\n@@ ") != 1 or "\n\n" in f"{patch}\n" or "\n--- " in patch:
        return
    head, rest = patch.split("\n@@ ")
    start = rest.split(" @@")[0].replace("-", "").split(" +")
    wrong = " ".join(
        f"{sign}{at.split(',')[0]},{n}" for sign, at, n in zip("-+", start, (less, more), strict=True)
    )
    has_old = any(line[:1] in " -" for line in rest.splitlines()[1:])
    if has_old:
        body = rest.partition("\n")[2]
        assert applied(old, f"{head}\n@@ {wrong} @@\n{body}").text == new


LINES = "".join(f"line {n}\n" for n in range(1, 21))


def test_a_hunk_applies_at_the_only_position_of_its_lines():
    found = applied(LINES, "@@ -2,2 +2,2 @@\n line 11\n-line 12\n+twelve\n")
    assert "line 11\ntwelve\nline 13\n" in found.text
    assert [change.moved for change in found.changes] == [True]
    assert found.changes[0].span == (12, 1)


def test_hunks_after_a_moved_one_move_with_it():
    found = applied(LINES, "@@ -1 +1 @@\n-line 5\n+five\n@@ -3 +3 @@\n-line 7\n+seven\n")
    assert [change.moved for change in found.changes] == [True, False]
    assert "five\nline 6\nseven\n" in found.text


def test_lines_with_several_matches_are_ambiguous():
    old = "a\nx\nb\nx\nc\nx\n"
    found = misfit(old, "@@ -9 +9 @@\n-x\n+y\n")
    assert found.places == (2, 4, 6)
    assert applied(old, "@@ -4 +4 @@\n-x\n+y\n").text == "a\nx\nb\ny\nc\nx\n"


def test_a_hunk_never_applies_without_its_context():
    old = "def g():\n    return 1\n"
    found = misfit(old, "@@ -1,2 +1,2 @@\n def h():\n-    return 1\n+    return 2\n")
    assert (found.patch_line, found.target_line) == (2, 1)
    assert (found.expected, found.actual) == ("def h():\n", "def g():\n")


def test_white_space_is_ignored_if_that_leaves_one_position():
    found = applied("if a:\n\treturn 1  \n", "@@ -1,2 +1,2 @@\n if a:\n-    return 1\n+    return 2\n")
    assert found.text == "if a:\n    return 2\n"
    assert [change.loose for change in found.changes] == [True]
    twice = "if a:\n\tx\nif a:\n\tx\n"
    assert misfit(twice, "@@ -9,2 +9,2 @@\n if a:\n-    x\n+    y\n").places == (1, 3)


def test_a_file_keeps_its_line_breaks():
    found = applied("a\r\nb\r\nc\r\n", "@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n")
    assert found.text == "a\r\nx\r\ny\r\nc\r\n"
    assert applied("a\nb\n", "@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n").text == "a\nc\n"


def test_a_last_line_without_its_break_is_found_and_gets_one_if_more_follows():
    assert applied("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n").text == "a\nb\nc\n"


def test_lines_are_added_to_an_empty_file():
    assert applied("", "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n").text == "a\nb\n"


def test_lines_without_context_apply_only_at_the_stated_position():
    assert applied("a\nb\n", "@@ -1,0 +2 @@\n+x\n").text == "a\nx\nb\n"
    assert misfit("a\nb\n", "@@ -7,0 +8 @@\n+x\n").target_line == 8


def test_an_empty_line_is_one_of_context():
    assert applied("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n").text == "a\n\nc\n"


def test_a_mismatch_after_the_end_has_no_actual_line():
    found = misfit("a\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
    assert (found.target_line, found.expected, found.actual) == (2, "b\n", None)


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ("--- a\n+++ b\n", "invalid_hunk_header"),
        ("@@ def area @@\n-a\n+b\n", "invalid_hunk_header"),
        ("@@ -x,1 +1,1 @@\n-a\n+b\n", "invalid_hunk_header"),
        ("@@ -1 +1 @@\n-a\n+b\n*** end\n", "invalid_hunk_line"),
        ("@@ -1 +1 @@\na\n", "invalid_hunk_line"),
        ("@@ -9 +9 @@\n-a\n+b\n@@ -2 +2 @@\n-c\n+d\n", "hunk_out_of_order"),
        ("--- a\n+++ a\n@@ -1 +1 @@\n-a\n+b\n--- c\n+++ c\n@@ -1 +1 @@\n-a\n+b\n", "patch_several_files"),
        (
            "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/y b/y\n@@ -1 +1 @@\n-a\n+b\n",
            "patch_several_files",
        ),
        ("@@ -1 +1 @@\n-a\n+b\n" * (HUNKS_MAX + 1), "patch_too_large"),
    ],
)
def test_a_text_that_is_no_diff_of_one_file_is_refused(patch, code):
    with pytest.raises(ToolError) as refused:
        parse_diff(patch)
    assert refused.value.reason == code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@@ -1 +1 @@\n-a\n+b\n", True),
        ("@@ def area @@\n-a\n", True),
        ("--- a\n+++ b\n@@ -1 +1 @@\n", True),
        ("+++ b\n@@ -1 +1 @@\n", True),
        ("diff --git a/x b/x\n", True),
        ("Index: x\n--- x\n+++ x\n@@ -1 +1 @@\n", True),
        ("---\ntitle: x\n---\n# Text\n", False),
        ("+++\ntitle = 'x'\n+++\n", False),
        ("--- a rule of dashes\n\ntext\n", False),
        ("Index: of things\n", False),
        ("text\n@@ -1 +1 @@\n", False),
    ],
)
def test_a_diff_is_distinguished_from_a_whole_text(text, expected):
    assert is_diff(text) is expected


def test_only_a_fence_around_a_diff_is_removed():
    assert unfence("```diff\n@@ -1 +1 @@\n-a\n+b\n```\n") == "@@ -1 +1 @@\n-a\n+b\n"
    fenced = "```python\nx = 1\n```\n"
    assert unfence(fenced) == fenced


@given(st.text(st.sampled_from("@ -+1,\nab\\"), max_size=80), texts)
def test_any_text_is_applied_or_refused_by_a_code(patch, old):
    try:
        hunks = parse_diff(patch)
    except ToolError:
        return
    assert isinstance(apply_diff(old, hunks), Applied | Mismatch)


def test_a_block_of_one_line_again_and_again_is_searched_in_linear_time():
    old = "a\n" * 20_000
    block = "".join(" a\n" for _ in range(10_000))
    for end in ("-b\n", "-a \n-b\n"):
        assert misfit(old, f"@@ -1,1 +1,1 @@\n{block}{end}").hunk == 1
