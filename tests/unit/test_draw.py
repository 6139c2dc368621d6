from __future__ import annotations

from tests.support.draw import draw_number, share

NAMES = [f"scenario {number}" for number in range(15)]
SHARES = 3


def test_shares_dealt_in_turn_have_every_row_once():
    dealt = [share(NAMES, SHARES, draw=draw, everything=False) for draw in range(SHARES)]
    assert sorted(name for rows in dealt for name in rows) == sorted(NAMES)
    assert {len(rows) for rows in dealt} == {len(NAMES) // SHARES}


def test_a_night_plays_every_share():
    assert share(NAMES, SHARES, draw=1, everything=True) == NAMES


def test_a_draw_is_the_number_that_a_hash_begins_with():
    assert draw_number("3068d57db15ae1cf") == 0x3068D57D
    assert draw_number("") == 0
    assert draw_number("tonight") == draw_number("tonight") != draw_number("tomorrow")
