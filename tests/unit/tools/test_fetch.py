from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.source import Source
from stepline.model.usage import estimate_tokens
from stepline.tools.context import ReadCaps
from stepline.tools.fetch import FETCH, PATHS_MAX, run_fetch
from stepline.tools.sources import SourcePool

from .conftest import TURN, ToolConversation

PROMPT = f"ar:{TURN}.user.prompt"
RESULT = f"tc:{TURN}.tc_000000000001.result"
POOL = {sid: Source(sid=sid, title=f"page {sid}") for sid in (1, 2, 5)}


def fetch(conversation: ToolConversation, path: Any, **context: Any) -> Any:
    """Return what a program gets."""
    assert FETCH.validate({"path": path}) == []
    return run_fetch({"path": path}, replace(conversation.context("tc_000000000009"), **context)).ret


def code(conversation: ToolConversation, path: str) -> str:
    row = fetch(conversation, path)
    assert set(row) == {"path", "err"}
    return row["err"]["code"]


def test_a_text_is_fetched_whole_regardless_of_the_read_caps(conversation):
    conversation.caps = ReadCaps(max_chars=10, max_tokens=1, max_bytes=10)
    text = "Grüße\n" * 10_000
    assert estimate_tokens(text) > conversation.caps.max_tokens
    conversation.say(PROMPT, text)
    assert fetch(conversation, PROMPT) == {"path": PROMPT, "ret": {"text": text}}


def test_json_is_fetched_parsed(conversation):
    conversation.say(RESULT, json.dumps({"rows": [1, 2]}), mime="application/json")
    assert fetch(conversation, RESULT)["ret"] == {"payload": {"rows": [1, 2]}}


def test_a_long_result_in_the_store_is_fetched_whole(conversation):
    conversation.keep(RESULT, json.dumps(list(range(50_000))).encode(), "application/json; charset=utf-8")
    assert fetch(conversation, RESULT)["ret"]["payload"][-1] == 49_999


def test_invalid_json_is_fetched_as_text(conversation):
    conversation.say(RESULT, "{cut", mime="application/json")
    assert fetch(conversation, RESULT)["ret"] == {"text": "{cut"}


def test_a_list_is_answered_path_by_path_in_its_order(conversation):
    conversation.say(PROMPT, "one")
    conversation.say(RESULT, "two")
    rows = fetch(conversation, [RESULT, "fi:x", PROMPT, f"conv:{PROMPT}"])
    assert [row["path"] for row in rows] == [RESULT, "fi:x", PROMPT, f"conv:{PROMPT}"]
    assert [row.get("ret", {}).get("text") for row in rows] == ["two", None, "one", "one"]


@pytest.mark.parametrize(
    ("path", "sids"),
    [
        ("so:sources_pool", [1, 2, 5]),
        ("so:sources_pool[2-5]", [2, 5]),
        ("sources_pool[5,1]", [1, 5]),
    ],
)
def test_rows_of_the_source_pool_are_fetched_as_rows(conversation, path, sids):
    rows = fetch(conversation, path, sources=SourcePool(POOL))["ret"]["payload"]
    assert rows == [{"sid": sid, "title": f"page {sid}"} for sid in sids]


def test_an_empty_pool_has_no_rows_and_a_missing_row_is_reported(conversation):
    assert fetch(conversation, "so:sources_pool")["ret"] == {"payload": []}
    assert code(conversation, "so:sources_pool[3]") == "not_found"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "invalid_path_empty"),
        (" ", "invalid_path_empty"),
        ("outputs/report.md", "invalid_path_literal"),
        (f"{TURN}/outputs/report.md", "invalid_path_literal"),
        (f"fi:{TURN}.outputs/report.md", "invalid_path_file"),
        (f"conv:fi:{TURN}.outputs/report.md", "invalid_path_file"),
        ("sk:public.pdf", "invalid_path_skill"),
        ("ks:handbook.md", "invalid_path_kind"),
        (f"ws:{TURN}.conv.working.summary", "invalid_path_kind"),
        ("file:///etc/passwd", "invalid_path_kind"),
        (f"ar:{TURN}.react.exit", "not_found"),
        (PROMPT, "not_found"),
        (f"tc:{TURN}.tc_000000000001", "invalid_path_tc"),
        (f"tc:{TURN}.tc_000000000001.view.0", "view_not_readable"),
        ("ar:turn_20200101T000000_000000.user.prompt", "turn_not_found"),
        ("so:sources_pool[x]", "invalid_path_so"),
    ],
)
def test_a_path_that_cannot_be_fetched_says_why(conversation, path, expected):
    assert code(conversation, path) == expected


def test_bytes_that_are_not_text_are_not_fetched(conversation):
    conversation.keep(RESULT, b"\x89PNG", "image/png")
    assert code(conversation, RESULT) == "content_not_text"


@given(st.text(max_size=60))
def test_no_path_crashes_the_fetch(path):
    assert set(fetch(ToolConversation(), path)) & {"ret", "err"}


def test_it_is_for_programs_only():
    assert FETCH.in_exec
    assert not FETCH.in_react


@pytest.mark.parametrize("path", [None, 1, {}, [], [1], ["x"] * (PATHS_MAX + 1)])
def test_a_path_is_a_text_or_a_list_of_some(path):
    assert FETCH.validate({"path": path})
