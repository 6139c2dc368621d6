"""The reference page for client authors: it matches the models."""

from __future__ import annotations

import re

import msgspec
import pytest

from docs.build.events import LANE_PLACES, LANES, PLACES, event_name, render
from stepline.events.types import EVENT_TABLE, MODELS
from stepline.model.wire.event import EventData


@pytest.mark.parametrize("row", EVENT_TABLE, ids=lambda row: f"{row.type} {row.step}".strip())
def test_every_type_says_when_it_comes_and_every_field_stands_on_the_page(row):
    assert row.cause[0].isupper()
    assert row.cause.endswith(".")
    heading = f"### {row.type}, {row.step}\n" if row.type == "chat.step" else f"### {row.type}\n"
    section = render().split(heading)[1].split("\n### ")[0]
    for field in msgspec.structs.fields(row.model):
        assert f"| `{field.encode_name}` |" in section


def test_every_link_of_the_page_leads_to_a_heading():
    page = render()
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= anchors


def leaves(model: type[EventData]) -> set[type[EventData]]:
    below = model.__subclasses__()
    return {model} if not below else {leaf for one in below for leaf in leaves(one)}


def test_every_model_of_an_event_stands_in_the_table_once():
    assert sorted(model.__name__ for model in leaves(EventData)) == sorted(one.__name__ for one in MODELS)
    assert len({(row.type, row.step) for row in EVENT_TABLE}) == len(EVENT_TABLE)


def test_no_field_is_left_without_a_meaning():
    rows = [line for line in render().splitlines() if line.startswith("| `")]
    assert [line for line in rows if line.endswith("|  |")] == []


def test_the_page_says_of_every_event_and_lane_where_it_is_shown():
    assert sorted(PLACES) == sorted(event_name(row) for row in EVENT_TABLE)
    assert sorted(LANE_PLACES) == sorted(lane for lane, _, _ in LANES)
