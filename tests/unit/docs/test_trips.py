"""docs/concepts/turn.md names the modules that a prompt, a delta, a parameter and a program pass."""

from __future__ import annotations

from pathlib import Path

from bench.trips import render_rows

ROOT = Path(__file__).parents[3]
LIMITS = {
    "prompt → request": 12,
    "delta → socket": 9,
    "tool parameter → result": 9,
    "program text → executor": 10,
}


def test_the_page_has_the_trips_that_are_traced():
    rows = render_rows()
    assert rows in (ROOT / "docs/concepts/turn.md").read_text(encoding="utf-8")


def test_no_trip_grows_beyond_its_limit():
    counted = {
        row.split(" | ")[0].strip("| "): int(row.split(" | ")[1]) for row in render_rows().splitlines()
    }
    assert counted.keys() == LIMITS.keys()
    assert {name for name, count in counted.items() if count > LIMITS[name]} == set()
