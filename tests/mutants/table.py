"""`table.json`: of the mutants that the fixed seed draws, the test that killed each, and those that are accepted.

An accepted mutant changes nothing that a test may assert; its reason says why.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("table.json")
_TABLE: Final[dict[str, dict[str, str]]] = json.loads(FILE.read_text())
KILLED: Final = _TABLE["killed"]
"""Names of mutants, each with a test that fails with it; "" if no test ends with it."""
ACCEPTED: Final = _TABLE["accepted"]
"""Names of mutants, each with a reason."""


def write(killed: Mapping[str, str], listed: Collection[str]) -> None:
    """Write what was killed, and keep the reasons of mutants that the library still has."""
    kept = {name: reason for name, reason in ACCEPTED.items() if name in listed and name not in killed}
    table = {"accepted": kept, "killed": dict(killed)}
    FILE.write_text(json.dumps(table, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
