"""`python -m bench.torture`: run the matrix, store the results, and write docs/concepts/torture.md.

Exit code 1 if a cell of Stepline that was run does not hold.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peer import NoPeerError
from bench.torture.fault import FAULTS, Fault
from bench.torture.model_server import ModelServer
from bench.torture.results import Column, read_results, write_column
from bench.torture.run_matrix import report, run_cell
from bench.torture.subject_table import SUBJECTS, SubjectKind
from bench.torture.torture_page import render_page
from bench.torture.trial import QUICK, Patience

PAGE = Path(__file__).parents[2] / "docs/concepts/torture.md"
OURS = "stepline"


def main() -> int:
    """Run the cells that are asked for; after each, the results and the page are written."""
    asked = _parser().parse_args()
    kinds = [kind for kind in SUBJECTS if not asked.only or kind.name in asked.only]
    faults = [fault for fault in FAULTS if not asked.fault or fault.name in asked.fault]
    with ModelServer() as model:
        return _run_all(kinds, faults, QUICK if asked.quick else Patience(), model, stores=not asked.quick)


def _run_all(
    kinds: Sequence[SubjectKind],
    faults: Sequence[Fault],
    patience: Patience,
    model: ModelServer,
    *,
    stores: bool,
) -> int:
    ours_held = True
    for kind in kinds:
        for fault in faults:
            column = _run(kind, fault, patience, model)
            if stores:
                write_column(kind.name, column)
                PAGE.write_text(render_page(read_results()), encoding="utf-8")
            if kind.name == OURS:
                ours_held = ours_held and column.cells[fault.name].verdict == "holds"
            if column.left_out:
                break
        kind.close()
    return 0 if ours_held else 1


def _run(kind: SubjectKind, fault: Fault, patience: Patience, model: ModelServer) -> Column:
    """Return the subject's column with this cell run anew."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    try:
        versions = kind.versions()
        cell = run_cell(kind.open, fault, patience, model)
    except NoPeerError as error:
        report(f"{kind.name}: left out: {error}")
        return Column(date=today, left_out=str(error))
    report(f"{kind.name} {fault.name}: {cell.verdict} ({cell.seconds:.0f} s) {cell.evidence}")
    before = read_results().get(kind.name, Column())
    return Column(versions=versions, date=today, cells={**before.cells, fault.name: cell})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.torture", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=[kind.name for kind in SUBJECTS], help="this subject"
    )
    parser.add_argument(
        "--fault", action="append", choices=[fault.name for fault in FAULTS], help="this fault"
    )
    parser.add_argument("--quick", action="store_true", help="wait less, miss less, and store nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
