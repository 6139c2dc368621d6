"""The reference page for client authors: it matches the models."""

from __future__ import annotations

import re

import msgspec
import pytest

from docs.build.events import LANE_PLACES, LANES, PLACES, event_name, render
from stepline.events.types import EVENT_TABLE, MODELS
from stepline.model.wire.event import EventData


@pytest.mark.parametrize("row", EVENT_TABLE, ids=lambda row: f"{row.type} {row.step}".strip())
def test_each_event_type_documents_its_cause_and_its_fields(row):
    assert row.cause[0].isupper()
    assert row.cause.endswith(".")
    heading = f"### {row.type}, {row.step}\n" if row.type == "chat.step" else f"### {row.type}\n"
    section = render().split(heading)[1].split("\n### ")[0]
    for field in msgspec.structs.fields(row.model):
        assert f"| `{field.encode_name}` |" in section


def test_links_of_the_event_page_lead_to_headings():
    page = render()
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= anchors


def leaves(model: type[EventData]) -> set[type[EventData]]:
    below = model.__subclasses__()
    return {model} if not below else {leaf for one in below for leaf in leaves(one)}


def test_each_event_model_is_in_the_table_once():
    assert sorted(model.__name__ for model in leaves(EventData)) == sorted(one.__name__ for one in MODELS)
    assert len({(row.type, row.step) for row in EVENT_TABLE}) == len(EVENT_TABLE)


def test_each_field_has_a_description():
    rows = [line for line in render().splitlines() if line.startswith("| `")]
    assert [line for line in rows if line.endswith("|  |")] == []


def test_the_page_says_where_each_event_and_lane_is_shown():
    assert sorted(PLACES) == sorted(event_name(row) for row in EVENT_TABLE)
    assert sorted(LANE_PLACES) == sorted(lane for lane, _, _ in LANES)
