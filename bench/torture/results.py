"""The stored results: a file for each subject, with its column of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.torture.cell import Cell
from bench.torture.fault import FAULTS

FOLDER: Final = Path(__file__).with_name("results")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A subject's cells by fault, with the versions and the date of its last run; `left_out` is why it has none."""

    versions: str = ""
    date: str = ""
    left_out: str = ""
    cells: Mapping[str, Cell] = field(default_factory=dict)


def read_results(folder: Path = FOLDER) -> dict[str, Column]:
    """Return the columns by subject."""
    return {path.stem: _read_column(path) for path in sorted(folder.glob("*.json"))}


def _read_column(path: Path) -> Column:
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Column(**{**stored, "cells": {fault: Cell(**cell) for fault, cell in stored["cells"].items()}})


def write_column(name: str, column: Column, folder: Path = FOLDER) -> None:
    """Store a subject's column, its cells in the order of the faults."""
    cells = {fault.name: asdict(column.cells[fault.name]) for fault in FAULTS if fault.name in column.cells}
    text = json.dumps({**asdict(column), "cells": cells}, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
