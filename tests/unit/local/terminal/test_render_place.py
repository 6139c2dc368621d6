"""A queued turn, as a terminal shows it to users and programs."""

from __future__ import annotations

import pytest

from stepline.local.client.change import Waiting
from stepline.local.terminal.json_lines import render_effect
from stepline.local.terminal.turn_view import PlainView, RichView
from tests.unit.local.terminal.recorded_surface import RecordedSurface


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (3, "… queued at position 3"),
        (1, "… queued: next to begin"),
        (0, "… no longer queued"),
    ],
)
def test_a_queued_turn_is_shown_with_its_position(place, said):
    complained, paper = [], RecordedSurface(width=100)
    for view in (PlainView(lambda _: None, complained.append), RichView(paper)):
        view.show(Waiting(turn_id="turn_1", place=place))
    assert complained == [said]
    assert said in paper.printed()


def test_a_queue_position_is_a_separate_json_line():
    (line,) = render_effect(Waiting(turn_id="turn_1", place=2))
    assert line == {"frame": "waiting", "turn_id": "turn_1", "place": 2}
