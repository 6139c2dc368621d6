"""The reference names every lane that there is, and none that there is not."""

from __future__ import annotations

import re

import msgspec
import pytest

from docs.build.events import render_lanes
from stepline.protocol.stream.lane import LaneClosed, LaneFacts, LaneOpened
from tests.unit.protocol.stream.shown_lanes import answer, call, code, run, show, thinking, write

EVERYTHING = (
    thinking("Hm.")
    + write("outputs/a.md", "a file", notes="n")
    + write("note.md", "short", channel="timeline_text")
    + call("react.plan", mode="new", steps=["a"])
    + run(notes="sum up")
    + code("print(1)")
)


def test_the_reference_names_every_lane_with_its_marker():
    seen = {**show(EVERYTHING).facts, **show(answer("Yes.")).facts}
    found = {(re.sub(r"\.\d+", ".<i>", lane, count=1), facts.marker) for lane, facts in seen.items()}
    found.add(("exec.<i>.log", "subsystem"))  # of the running program, no lane of the decision
    rows = re.findall(r"^\| `(\S+)` \| `(\w+)` \|", render_lanes(), re.MULTILINE)
    assert found == set(rows)
    assert len(rows) == len(found)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            LaneOpened(lane="a.0", facts=LaneFacts(marker="canvas", format="html", artifact_name="a.html")),
            b'{"do":"open","lane":"a.0","facts":{"marker":"canvas","format":"html","artifact_name":"a.html"}}',
        ),
        (LaneClosed(lane="a.0", chars=3), b'{"do":"close","lane":"a.0","chars":3}'),
        (
            LaneClosed(lane="a.0", chars=3, aborted="policy"),
            b'{"do":"close","lane":"a.0","chars":3,"aborted":"policy"}',
        ),
    ],
)
def test_a_line_of_the_control_lane_matches_the_reference(event, line):
    assert msgspec.json.encode(event) == line
    assert msgspec.json.decode(line, type=LaneOpened | LaneClosed) == event
