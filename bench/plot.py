"""Plots of the results as SVG, for the page: cost, speed and growth.

Written by hand, because two kinds of plots are less code than a library is a dependency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from bench.row import SHAPES, Row

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
WIDTH: Final = 760
LABEL_PX: Final = 250
VALUE_PX: Final = 70
BAR_PX: Final = 16
HEAD_PX: Final = 44
PLOT_PX: Final = 300
COLOURS: Final = ("#1b5e9b", "#8a8f98", "#d9822b", "#4c9a6a", "#9a5ba8")
_STYLE: Final = "font: 12px system-ui, sans-serif; fill: #222"

Bars = Mapping[str, Mapping[str, float]]
"""Values by group and by name; `ours` first."""

_COST: Final = {"full_policy": "", "held_out": ", held out", "all_gaps_cold": ", all gaps cold"}
_SPEED: Final = ("splitter_mb_s", "json_delta_mb_s", "pipeline_mb_s")


def write_plots(rows: Iterable[Row], folder: Path = FOLDER) -> list[Path]:
    """Write `bench-<name>.svg` for what the rows have values for; return the paths."""
    known = {row.metric: row for row in rows if row.value is not None}
    made = {
        "cost": plot_bars(
            "Input cost of a long conversation, over a transcript compacted at 180k", _cost(known)
        ),
        "speed": plot_bars("Characters a second of CPU time, MB/s", _speed(known)),
        "growth": plot_lines(
            "CPU time of a resumed round, ms, by the blocks before it (both axes logarithmic)", _growth(known)
        ),
    }
    paths = []
    for name, svg in made.items():
        if svg:
            paths.append(folder / f"bench-{name}.svg")
            paths[-1].write_text(svg, encoding="utf-8")
    return paths


def _cost(known: Mapping[str, Row]) -> Bars:
    return {
        f"{shape}{words}": _with_ours(row, {f"transcript, {name}": of for name, of in row.peers.items()})
        for shape in SHAPES
        for what, words in _COST.items()
        if (row := known.get(f"cost_{what}_x_automatic_{shape}"))
    }


def _speed(known: Mapping[str, Row]) -> Bars:
    return {metric: _with_ours(row, row.peers) for metric, row in known.items() if metric.startswith(_SPEED)}


def _growth(known: Mapping[str, Row]) -> Mapping[str, Mapping[int, float]]:
    """Return the milliseconds by name and blocks."""
    found: dict[str, dict[int, float]] = {}
    for metric, row in known.items():
        start, _, blocks = metric.rpartition("_")
        if start == "resume_cpu_ms":
            for name, spent_ms in _with_ours(row, row.peers).items():
                found.setdefault(name, {})[int(blocks)] = spent_ms
    return found


def _with_ours(row: Row, peers: Mapping[str, float]) -> dict[str, float]:
    assert row.value is not None
    limit = {f"{row.limit.name} (limit)": row.limit.value} if row.limit else {}
    return {"ours": row.value, **limit, **peers}


def plot_bars(title: str, groups: Bars) -> str:
    """Return groups of horizontal bars from zero, each with its value; "" without a group."""
    if not groups:
        return ""
    most = max(value for bars in groups.values() for value in bars.values())
    room, y, body = WIDTH - LABEL_PX - VALUE_PX, HEAD_PX, list[str]()
    for group, bars in groups.items():
        body.append(_text(8, y + 12, group, weight="bold"))
        for name, value in bars.items():
            y += BAR_PX + 2
            width = room * value / most
            colour = COLOURS[0] if name == "ours" else COLOURS[1]
            body.append(_text(24, y + 12, name))
            body.append(
                f'<rect x="{LABEL_PX}" y="{y}" width="{width:.1f}" height="{BAR_PX}" fill="{colour}"/>'
            )
            body.append(_text(LABEL_PX + width + 6, y + 12, f"{value:.3g}"))
        y += BAR_PX + 12
    return _svg(title, y, body)


def plot_lines(title: str, series: Mapping[str, Mapping[int, float]]) -> str:
    """Return a line for each series, on two logarithmic axes, with its name at its end; "" without one."""
    if not series:
        return ""
    at_x = _scale([x for line in series.values() for x in line], LABEL_PX / 4, WIDTH - LABEL_PX)
    at_y = _scale([y for line in series.values() for y in line.values()], HEAD_PX + PLOT_PX, HEAD_PX + 12)
    body = [
        _text(at_x(x) - 10, HEAD_PX + PLOT_PX + 22, f"{x}") for x in sorted({*next(iter(series.values()))})
    ]
    ends = _apart([at_y(line[max(line)]) for line in series.values()])
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(at_x(x), at_y(y)) for x, y in sorted(line.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        body.append(_text(points[-1][0] + 8, ends[number] + 4, f"{line[max(line)]:.3g}  {name}", fill=colour))
    return _svg(title, HEAD_PX + PLOT_PX + 36, body)


def _scale(values: Sequence[float], low_px: float, high_px: float) -> Callable[[float], float]:
    """Return a function from values to pixels, logarithmic from the least to the most."""
    least, most = math.log(min(values)), math.log(max(values))
    span = (most - least) or 1.0
    return lambda value: low_px + (high_px - low_px) * (math.log(value) - least) / span


def _apart(places: Sequence[float]) -> list[float]:
    """Return the places of labels, moved down where two would overlap."""
    found, last = dict[int, float](), -math.inf
    for index in sorted(range(len(places)), key=lambda index: places[index]):
        found[index] = last = max(places[index], last + BAR_PX)
    return [found[index] for index in range(len(places))]


def _text(x: float, y: float, text: str, **style: str) -> str:
    more = "".join(
        f"; {'font-weight' if name == 'weight' else name}: {value}" for name, value in style.items()
    )
    return f'<text x="{x:.1f}" y="{y:.1f}" style="{_STYLE}{more}">{escape(text)}</text>'


def _svg(title: str, height: float, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
    ground = f'<title>{escape(title)}</title><rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>'
    return "\n".join([head, ground, _text(8, 22, title, weight="bold"), *body, "</svg>", ""])
