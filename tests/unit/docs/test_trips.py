"""docs/concepts/turn.md names the modules that a message, a parameter, a program and a delta pass from door to door."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.trips import render_rows

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def rows():
    return render_rows()


def test_the_page_has_the_trips_that_are_traced(rows):
    assert rows in (ROOT / "docs/concepts/turn.md").read_text(encoding="utf-8")
