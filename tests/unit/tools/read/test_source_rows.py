"""`so:` paths in `react.read`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.source import Source
from stepline.tools.context import ReadCaps
from stepline.tools.read.source_rows import TEXT_FIELDS, fit_rows, items_stats
from tests.unit.tools.conftest import ToolConversation, read_status

POOL = {
    1: Source(sid=1, title="One", url="https://one.example", text="abc", content="0123456789"),
    2: Source(sid=2, title="Two", url="https://two.example", text="defg"),
    5: Source(sid=5, title="Five", url="https://five.example", content="x" * 30),
}


@pytest.fixture
def conversation() -> ToolConversation:
    return ToolConversation(sources=dict(POOL))


def read(conversation: ToolConversation, path: str, **params: Any) -> tuple[dict[str, Any], str]:
    """Return the row of one path, and what is shown."""
    output = conversation.call("react.read", {"paths": [path], **params})
    (row,) = read_status(output)["paths"]
    shown = [block for block in output.blocks if ".view." in block.path]
    return row, shown[0].text if shown else ""


def test_rows_are_shown_as_json_with_their_fields(conversation):
    row, text = read(conversation, "so:sources_pool[2,1]")
    assert json.loads(text) == [
        {"sid": 1, "title": "One", "url": "https://one.example", "content": "0123456789", "text": "abc"},
        {"sid": 2, "title": "Two", "url": "https://two.example", "text": "defg"},
    ]
    assert row["mime"] == "application/json"
    assert row["items_stats"] == {
        "kind": "sources",
        "items_count": 2,
        "sids": [1, 2],
        "content_rows": 1,
        "total_text_symbols": 7,
        "total_content_symbols": 10,
        "items": [{"sid": 1, "content_symbols": 10, "text_symbols": 3}, {"sid": 2, "text_symbols": 4}],
    }


def test_the_whole_pool_is_read_without_numbers(conversation):
    row, text = read(conversation, "so:sources_pool")
    assert [one["sid"] for one in json.loads(text)] == [1, 2, 5]
    assert "status" not in row


def test_numbers_that_are_not_there_are_named(conversation):
    row, text = read(conversation, "so:sources_pool[1-3,9]")
    assert row["missing_sids"] == [3, 9]
    assert [one["sid"] for one in json.loads(text)] == [1, 2]
    lost, _ = read(conversation, "so:sources_pool[3,9]")
    assert (lost["missing"], lost["reason"]) == (True, "not_found")
    assert "3, 9" in lost["message"]


def test_a_huge_range_names_only_the_first_that_are_missing(conversation):
    row, _ = read(conversation, "so:sources_pool[1-999999]")
    assert len(row["missing_sids"]) == 50


def test_an_empty_pool_is_empty_and_not_missing():
    row, text = read(ToolConversation(), "so:sources_pool")
    assert (row["status"], text) == ("empty", "")


def test_one_budget_is_spent_row_by_row(conversation):
    row, text = read(conversation, "so:sources_pool", max_text_symbols=14)
    assert row["status"] == "truncated_for_visible_context"
    one, two, five = json.loads(text)
    assert (one["content"], one["text"]) == ("0123456789", "abc")
    assert (two["text"], two["text_truncated_for_visible_context"]) == ("d", True)
    assert (two["text_original_symbols"], two["text_visible_symbols"]) == (4, 1)
    assert (five["content"], five["content_original_symbols"], five["content_visible_symbols"]) == ("", 30, 0)
    assert five["title"] == "Five"


def test_rows_are_cut_until_they_fit_the_read_caps(conversation):
    conversation.caps = ReadCaps(max_chars=2_000, max_tokens=400, max_bytes=10**6)
    conversation.sources[6] = Source(sid=6, title="Six", url="https://six.example", content="\u00fc" * 5_000)
    row, text = read(conversation, "so:sources_pool")
    assert row["status"] == "truncated_for_visible_context"
    assert len(text.encode()) <= 400 * 3.2
    assert [one["sid"] for one in json.loads(text)] == [1, 2, 5, 6]


def test_a_pool_whose_titles_alone_are_too_long_is_shown_from_its_beginning(conversation):
    conversation.caps = ReadCaps(max_chars=2_000, max_tokens=4_000, max_bytes=10**6)
    conversation.sources |= {
        i: Source(sid=i, title="t" * 200, url=f"https://e.example/{i}") for i in range(10, 60)
    }
    row, text = read(conversation, "so:sources_pool")
    assert row["status"] == "truncated_for_visible_context"
    assert row["next"]["path"] == "so:sources_pool"
    assert '"sid":1,' in text


def test_a_long_row_is_read_on_by_its_characters(conversation):
    output = conversation.call(
        "react.read", {"items": [{"path": "so:sources_pool[5]", "offset_text_symbols": 10}]}
    )
    (row,) = read_status(output)["paths"]
    assert row["read_range"]["offset_text_symbols"] == 10


def test_a_row_seen_whole_is_not_shown_again_until_it_changes(conversation):
    read(conversation, "so:sources_pool[1]")
    row, text = read(conversation, "so:sources_pool[1]")
    assert (row["status"], text) == ("exists_in_visible_context", "")
    conversation.sources[1] = Source(sid=1, title="One", url="https://one.example", text="more than before")
    row, text = read(conversation, "so:sources_pool[1]")
    assert "more than before" in text


def test_sizes_can_be_requested_alone(conversation):
    row, text = read(conversation, "so:sources_pool[1]", stats_only=True)
    assert (row["status"], text) == ("stats_only", "")
    assert row["text_symbols"] > 0


@given(
    st.lists(
        st.dictionaries(st.sampled_from([*TEXT_FIELDS, "title"]), st.text(max_size=9), max_size=4), max_size=6
    ),
    st.integers(0, 40),
)
def test_shown_text_stays_within_the_budget_and_cuts_are_marked(rows, budget):
    rows = [{"sid": sid, **row} for sid, row in enumerate(rows, start=1)]
    shown, cut = fit_rows(rows, budget)
    assert sum(len(row[name]) for row in shown for name in TEXT_FIELDS if name in row) <= budget
    for row, fitted in zip(rows, shown, strict=True):
        for name in row:
            if name not in TEXT_FIELDS:
                assert fitted[name] == row[name]
                continue
            assert row[name].startswith(fitted[name])
            lost = fitted.get(f"{name}_truncated_for_visible_context", False)
            assert lost == (fitted[name] != row[name])
            if lost:
                assert fitted[f"{name}_original_symbols"] == len(row[name])
                assert fitted[f"{name}_visible_symbols"] == len(fitted[name])
    assert cut == (shown != rows)
    assert items_stats(rows)["sids"] == [row["sid"] for row in rows]
