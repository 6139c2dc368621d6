"""The recordings that the page's tests fold: they match the current code, and cover every event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docs.build.events import LANES, event_name
from stepline.events.types import EVENT_TABLE, ToolProgress, UploadRefused, UploadTaken
from tests.support import recorded_thread

NOTICES = {UploadTaken.EVENT, UploadRefused.EVENT}
"""They have no batch, so they are in no log."""
REPORTS = {ToolProgress.EVENT}
"""They are on lanes only."""


def stored(name: str) -> Any:
    return json.loads((recorded_thread.FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", recorded_thread.RECIPES)
def test_recorded_conversations_match_the_current_events(name: str) -> None:
    kept = {one["name"]: one["frames"] for one in stored("conversations.json")}
    assert kept.keys() == recorded_thread.RECIPES.keys()
    heard = recorded_thread.record(recorded_thread.RECIPES[name]())
    assert kept[name] == heard, "run: python -m tests.support.recorded_thread"


def test_the_recorded_log_of_rare_events_matches_the_current_events() -> None:
    assert stored("told.json") == recorded_thread.frames_of(recorded_thread.told().batches)


def test_recordings_cover_each_event_and_lane() -> None:
    frames = [frame for one in stored("conversations.json") for frame in one["frames"]] + stored("told.json")
    found = {(event["type"], event.get("step", "")) for frame in frames for event in frame.get("events", ())}
    rows = {event_name(row): (row.type, row.step) for row in EVENT_TABLE if row.type not in NOTICES | REPORTS}
    assert [name for name, row in rows.items() if row not in found] == []
    lanes = {frame["lane"] for frame in frames if frame["frame"] == "delta"}
    assert [lane for lane, _, _ in LANES if lane.replace("<i>", "0") not in lanes] == []


def test_events_of_generated_logs_are_in_the_table() -> None:
    known = {(row.type, row.step) for row in EVENT_TABLE}
    events = [event for log in stored("logs.json") for frame in log for event in frame.get("events", ())]
    assert {(event["type"], event.get("step", "")) for event in events} <= known
