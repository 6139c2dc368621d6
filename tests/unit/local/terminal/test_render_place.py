"""A turn that waits in line, as people and programs at a terminal are told of it."""

from __future__ import annotations

import pytest

from stepline.local.client.change import Waiting
from stepline.local.terminal.json_lines import render_effect
from stepline.local.terminal.turn_view import PlainView, RichView
from tests.unit.local.terminal.recorded_surface import RecordedSurface


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (3, "… waiting to begin: at place 3 in line"),
        (1, "… waiting to begin: next in line"),
        (0, "… no longer in line"),
    ],
)
def test_a_turn_in_line_says_at_which_place(place, said):
    complained, paper = [], RecordedSurface(width=100)
    for view in (PlainView(lambda _: None, complained.append), RichView(paper)):
        view.show(Waiting(turn_id="turn_1", place=place))
    assert complained == [said]
    assert said in paper.printed()


def test_a_place_in_line_is_a_json_line_of_its_own():
    (line,) = render_effect(Waiting(turn_id="turn_1", place=2))
    assert line == {"frame": "waiting", "turn_id": "turn_1", "place": 2}
