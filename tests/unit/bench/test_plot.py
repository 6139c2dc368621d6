"""Plots of the results: a bar is as long as its value, a line rises as its values do, and what is missing is left out."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from bench.plot import plot_bars, plot_lines, write_plots
from bench.row import Limit, Row
from tests.unit.docs.source import DOCS

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    Row(metric="cost_full_policy_x_automatic_linear", value=0.5, unit="x", peers={"180k": 1.0, "120k": 0.9}),
    Row(metric="splitter_mb_s_8", value=30.0, unit="MB/s", limit=Limit("find", 40.0), peers={"regex": 20.0}),
    *(
        Row(metric=f"resume_cpu_ms_{blocks}", value=ours, unit="ms CPU", limit=Limit("rows", 1.0), peers={"other": peer})
        for blocks, ours, peer in ((10, 3.0, 6.0), (1000, 8.0, 40.0), (5000, 13.0, 140.0))
    ),
]  # fmt: skip


def elements(svg, name):
    return list(ET.fromstring(svg).iter(f"{SVG}{name}"))


def texts(svg):
    return [element.text for element in elements(svg, "text")]


def test_a_bar_is_as_long_as_its_value():
    svg = plot_bars("Speed <a & b>", {"x": {"ours": 30.0, "peer": 60.0}})
    ours, peer = (float(bar.get("width")) for bar in elements(svg, "rect")[1:])
    assert peer == pytest.approx(2 * ours, abs=0.1)
    assert "Speed <a & b>" in texts(svg)
    assert {"ours", "peer", "30", "60"} <= set(texts(svg))


def test_a_line_rises_as_its_values_do_and_no_two_names_overlap():
    svg = plot_lines("Growth", {"ours": {10: 3.0, 5000: 13.0}, "peer": {10: 3.0, 5000: 13.1}})
    for line in elements(svg, "polyline"):
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        assert points == sorted(points)
        assert points[0][1] > points[-1][1]
    one, other = [float(text.get("y")) for text in elements(svg, "text")[-2:]]
    assert abs(one - other) >= 14


def test_every_plot_is_written_and_shown_on_the_page(tmp_path):
    paths = write_plots(ROWS, tmp_path)
    assert [path.name for path in paths] == ["bench-cost.svg", "bench-speed.svg", "bench-growth.svg"]
    page = (DOCS / "reference/bench.md").read_text()
    assert all(f"({path.name})" in page and (DOCS / "reference" / path.name).exists() for path in paths)
    cost, speed, growth = (path.read_text() for path in paths)
    assert {"ours", "transcript, 180k", "transcript, 120k", "0.5"} <= set(texts(cost))
    assert {"find (limit)", "regex"} <= set(texts(speed))
    assert {"13  ours", "140  other", "5000"} <= set(texts(growth))


def test_unmeasured_rows_are_in_no_plot(tmp_path):
    absent = Row(metric="splitter_mb_s_8", value=None, unit="MB/s")
    assert write_plots([absent], tmp_path) == []
