"""`python -m bench`: run all measurements, print the table, write bench/results.json and the page's plots.

Exit code 1 if a required metric is missing, an exact one is off its budget, or a topic failed. A missed goal is only
shown. `python -m bench <topic> …` prints those alone. Each topic's seconds go to bench/durations.json, by which landings share the topics.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from bench import (
    chat_page,
    cold,
    cost,
    door_stop,
    door_streams,
    doors,
    execution,
    fanout,
    field,
    first_token,
    imports,
    layers,
    load,
    memory,
    pages,
    parked,
    parser,
    pictures,
    pipeline,
    project,
    reads,
    recovery,
    remote,
    render,
    replay,
    resume,
    resume_real,
    rounds,
    sizes,
    stage,
    steer,
    store,
    stream,
    sweep,
    trips,
    turn_cost,
    verdict,
    web,
    wires,
)
from bench.budget import off_budget
from bench.meter import as_found
from bench.plot import write_plots
from bench.row import Row, missing, render_table, write_results

RESULTS = Path(__file__).with_name("results.json")
DURATIONS = Path(__file__).with_name("durations.json")
TOPICS: dict[str, Callable[[], list[Row]]] = {
    "parser": parser.rows,
    "field": field.rows,
    "pipeline": pipeline.rows,
    "resume": resume.rows,
    "resume_real": resume_real.rows,
    "render": render.rows,
    "replay": replay.rows,
    "pictures": pictures.rows,
    "reads": reads.rows,
    "rounds": rounds.rows,
    "trips": trips.rows,
    "project": project.rows,
    "cost": cost.rows,
    "store": store.rows,
    "parked": parked.rows,
    "sweep": sweep.rows,
    "stream": stream.rows,
    "turn_cost": turn_cost.rows,
    "steer": steer.rows,
    "imports": imports.rows,
    "wires": wires.rows,
    "cold": cold.rows,
    "sizes": sizes.rows,
    "layers": layers.rows,
    "first_token": first_token.rows,
    "execution": execution.rows,
    "stage": stage.rows,
    "fanout": fanout.rows,
    "load": load.rows,
    "recovery": recovery.rows,
    "memory": memory.rows,
    "pages": pages.rows,
    "web": web.rows,
    "chat_page": chat_page.rows,
    "doors": doors.rows,
    "door_stop": door_stop.rows,
    "door_streams": door_streams.rows,
    "verdict": verdict.rows,
    "remote": remote.rows,
}


def main() -> int:
    """Run every topic in turn; a failing one prints its reason and loses its metrics, the others still run."""
    asked = sys.argv[1:]
    if unknown := [name for name in asked if name not in TOPICS]:
        print(f"no such topic: {', '.join(unknown)}; there are {', '.join(TOPICS)}", file=sys.stderr)
        return 1
    rows: list[Row] = []
    durations: dict[str, float] = json.loads(DURATIONS.read_text())
    failed = []
    for name, measure in TOPICS.items():
        if asked and name not in asked:
            continue
        start = time.monotonic()
        print(f"{name} …", end="", file=sys.stderr, flush=True)
        try:
            with as_found():
                rows += measure()
        except Exception:  # noqa: BLE001 - the edge: the reason is printed, the metric is missing, the exit code is 1
            traceback.print_exc()
            failed.append(name)
            continue
        durations[name] = round(time.monotonic() - start, 1)
        print(f" {durations[name]:.0f} s", file=sys.stderr)
    DURATIONS.write_text(json.dumps({name: durations.get(name, 0) for name in TOPICS}, indent=1) + "\n")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    if not asked:
        write_results(rows, RESULTS)
        write_plots(rows)
    print(render_table(rows))
    if absent := missing(rows, asked or TOPICS):
        print(f"missing: {', '.join(absent)}", file=sys.stderr)
    if off := off_budget(rows):
        print(*off, sep="\n", file=sys.stderr)
    return 1 if absent or off or failed else 0


if __name__ == "__main__":
    sys.exit(main())
