import re

from hypothesis import given
from hypothesis import strategies as st

from stepline.bundle.generation.shown_text import ShownText, UsageFilter, read_sources
from stepline.model.source import Citation, Source
from stepline.protocol.parser.grammar import ChannelSpec
from tests.unit.bundle.generation.channel_call import SOURCES

PARTS = st.sampled_from(
    [
        "[",
        "]",
        "[[",
        "]]",
        "[[USAGE:",
        "[[usage : 1,2]]",
        "USAGE",
        "1",
        ",",
        "\u2013",
        " ",
        "a",
        "[[S:1]]",
        "\n",
        "[[S:2",
    ]
)
TEXTS = st.lists(PARTS, max_size=20)
TAG = re.compile(r"\[\[[ \t]{0,4}usage[ \t]{0,4}:[0-9s,; \t\u2013-]{0,256}\]\]", re.IGNORECASE)


@given(TEXTS)
def test_usage_tags_are_removed_and_other_text_stays(pieces):
    usage = UsageFilter()
    shown = "".join([*(usage.feed(piece) for piece in pieces), usage.close()])
    assert shown == TAG.sub("", "".join(pieces))


@given(TEXTS)
def test_only_a_possible_usage_tag_is_held_back(pieces):
    usage, whole, shown = UsageFilter(), "", ""
    for piece in pieces:
        whole += piece
        shown += usage.feed(piece)
        held = TAG.sub("", whole).removeprefix(shown)
        assert re.fullmatch(r"|\[\[?|\[\[[ \t]*(U\w{0,4}[ \t]*(:.*)?)?", held, re.IGNORECASE)


def test_half_a_tag_is_never_shown():
    usage = UsageFilter()
    assert [usage.feed(char) for char in "a[[USAGE:1]]b"] == ["a", *[""] * 11, "b"]


def test_half_a_tag_at_the_end_is_text_w4():
    for tail in ("[", "[[", "[[USAGE", "[[USAGE:1,", "[[USAGE:1]"):
        usage = UsageFilter()
        assert usage.feed("list " + tail) == "list "
        assert usage.close() == tail


def test_both_kinds_of_token_may_be_adjacent():
    shown = ShownText(ChannelSpec("answer"), read_sources(SOURCES))
    text = "a [[USAGE:1]][[S:1]][[S:[[USAGE:2]]2]] ["
    assert "".join([*map(shown.feed, text), shown.close()]) == (
        'a [One](https://example.com/1 "S:1")[Two](https://example.com/2 "S:2") ['
    )


def test_a_format_that_shows_no_links_keeps_its_tokens():
    for kind in ("json", "yaml", "xml", "mermaid"):
        shown = ShownText(ChannelSpec("x", kind), read_sources(SOURCES))
        assert shown.feed("[[S:1]]") + shown.close() == "[[S:1]]"


def test_rows_of_every_kind_are_sources_and_rows_without_a_sid_are_none():
    rows = [
        Source(sid=1, title="a", url="https://example.com/a", text="long"),
        Citation(sid=2, title="b"),
        {"sid": "3", "title": None, "url": "https://example.com/c", "more": 1},
        {"title": "no sid"},
        Source(title="not in a pool yet"),
    ]
    assert read_sources(rows) == {
        1: Citation(sid=1, title="a", url="https://example.com/a"),
        2: Citation(sid=2, title="b"),
        3: Citation(sid=3, url="https://example.com/c"),
    }
