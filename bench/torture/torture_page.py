"""docs/concepts/torture.md, from the stored results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.torture.cell import MEANINGS, Cell
from bench.torture.fault import FAULTS
from bench.torture.results import Column
from bench.torture.subject_table import LEFT_OUT, SUBJECTS, SubjectKind

_HEAD: Final = """\
# The torture matrix

Twelve faults, each done in the same way to Stepline and to other runtimes as they install from the registries. One command runs
it, stores the results in `bench/torture`, and writes this page:

<!-- not run: installs the peers, and waits for ten minutes in some cells -->
```sh
python -m bench.torture                             # everything; --quick waits 20 s instead, and stores nothing
python -m bench.torture --only langgraph --fault duplicate
```

Each subject runs the same agent: two tools, one of which needs a person's approval, and the same scripted model over HTTP. Each is
used by the ways that its own documentation names, with the durability that its authors recommend. A cell has a fresh store. The
scenarios are in `bench/torture/scenario.py`, written once for all subjects; a tool writes its effects to a file outside every store.
A conversation at rest had a turn that was answered 15 s before.
"""


def render_page(columns: Mapping[str, Column]) -> str:
    """Return the page."""
    run = [kind for kind in SUBJECTS if kind.name in columns and columns[kind.name].cells]
    absent = {
        kind.title: columns[kind.name].left_out
        for kind in SUBJECTS
        if kind.name in columns and kind not in run
    }
    parts = [
        _HEAD,
        *(_matrix(run, columns) if run else ()),
        *_meanings(),
        *_settings(run, columns),
        *_left_out({**absent, **LEFT_OUT}),
        *_faults(),
    ]
    for kind in run:
        parts += _evidence(kind, columns[kind.name].cells)
    return "\n".join(parts)


def _matrix(run: Sequence[SubjectKind], columns: Mapping[str, Column]) -> Iterator[str]:
    yield f"| fault | {' | '.join(kind.title for kind in run)} |"
    yield f"|---|{'---|' * len(run)}"
    for fault in FAULTS:
        cells = (columns[kind.name].cells.get(fault.name) for kind in run)
        yield f"| {fault.title} | {' | '.join(cell.verdict if cell else '' for cell in cells)} |"
    yield ""


def _meanings() -> Iterator[str]:
    yield "| cell | meaning |\n|---|---|"
    yield from (f"| {verdict} | {meaning} |" for verdict, meaning in MEANINGS.items())
    yield ""


def _settings(run: Sequence[SubjectKind], columns: Mapping[str, Column]) -> Iterator[str]:
    yield "## The subjects\n\n| | versions | how it is run | run on |\n|---|---|---|---|"
    for kind in run:
        column = columns[kind.name]
        yield f"| {kind.title} | {column.versions} | {kind.settings} | {column.date} |"
    yield ""


def _left_out(reasons: Mapping[str, str]) -> Iterator[str]:
    if not reasons:
        return
    yield "Left out:\n"
    yield from (f"- {title}: {reason}" for title, reason in reasons.items())
    yield ""


def _faults() -> Iterator[str]:
    yield "## The faults\n\n| fault | what is done | what `holds` requires |\n|---|---|---|"
    yield from (f"| {fault.title} | {fault.done} | {fault.holds} |" for fault in FAULTS)
    yield ""


def _evidence(kind: SubjectKind, cells: Mapping[str, Cell]) -> Iterator[str]:
    yield f"## {kind.title}\n\n| fault | cell | seen |\n|---|---|---|"
    for fault in FAULTS:
        if cell := cells.get(fault.name):
            yield f"| {fault.title} | {cell.verdict} | {cell.evidence.replace('|', '/')} |"
    yield ""
