"""The stored results: a column for each subject, from which the page is generated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.torture.cell import Cell
from bench.torture.fault import FAULTS

PATH: Final = Path(__file__).with_name("results.json")


@dataclass(frozen=True, kw_only=True)
class Column:
    """A subject's cells by fault, with the versions and the date of its last run; `left_out` is why it has none."""

    versions: str = ""
    date: str = ""
    left_out: str = ""
    cells: Mapping[str, Cell] = field(default_factory=dict)


def read_results(path: Path = PATH) -> dict[str, Column]:
    """Return the columns by subject."""
    if not path.exists():
        return {}
    stored: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Column(**{**column, "cells": {fault: Cell(**cell) for fault, cell in column["cells"].items()}})
        for name, column in stored.items()
    }


def write_results(columns: Mapping[str, Column], path: Path = PATH) -> None:
    """Store the columns, by name, and their cells in the order of the faults."""
    order = [fault.name for fault in FAULTS]
    stored = {
        name: {
            **asdict(columns[name]),
            "cells": {
                fault: asdict(columns[name].cells[fault]) for fault in order if fault in columns[name].cells
            },
        }
        for name in sorted(columns)
    }
    path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
