import pytest

from stepline.model.entry import TITLE_CHARS
from stepline.timeline.working_summary import fit_title, parse_title


@pytest.mark.parametrize(
    ("summary", "title"),
    [
        ("Title: Packing list for two days\nGoal: x", "Packing list for two days"),
        ("\n\n  title : a  b\tc \n", "a b c"),
        ("**Title:** “Two days away”.", "Two days away"),
        ("# Title: Why C#?", "Why C#?"),
        ("- *Title*: _x_", "x"),
        ("Title\uff1a 包装清单", "包装清单"),
        ("Title: one two three four five six seven", "one two three four five six"),
        ("Title:\nGoal: x", ""),
        ("Title: ''", ""),
        ("Title: \u200b\u200b", ""),
        ("Title: \u115f\u2060", ""),
        ("Title: 🎉", "🎉"),
        ("Goal: x\nTitle: too late", ""),
        ("Subtitle: x", ""),
        ("Goal: Title: x", ""),
        ("", ""),
    ],
)
def test_the_title_is_the_first_line_that_says_it_is(summary, title):
    assert parse_title(summary) == title


def test_a_summary_that_begins_with_a_rule_is_judged_at_once():
    assert parse_title(f"{'-' * 500}\nTitle: too late") == ""


def test_a_title_of_few_words_has_an_end_too():
    assert len(fit_title("x" * 500)) == TITLE_CHARS


def test_a_title_is_one_line_without_invisible_characters():
    assert fit_title("a\u2028b\0c\r\nd") == "a bc d"
