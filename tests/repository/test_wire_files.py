"""The code that a wire touches: its adapter's folder, its scripted twin, and one place each of few modules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
LIBRARY: Final = "layers/runtime/python/stepline"
NAMING: Final = {
    f"{LIBRARY}/bootstrap/choice.py",  # its row
    f"{LIBRARY}/local/scripted/server.py",  # its address
    f"{LIBRARY}/local/scripted/wire/wire_format.py",  # its row there
    f"{LIBRARY}/ports/model.py",  # its name
}


def naming(wire: str) -> set[str]:
    """Return the modules outside its own that import a wire's adapter, or have its name as a text."""
    named = re.compile(rf'"{wire}"|adapters\.{wire}\b|\b{wire}_wire\b')
    own = f"{LIBRARY}/adapters/{wire}/"
    found = (path for top in (LIBRARY, "stepline_cdk", "lambdas") for path in (ROOT / top).rglob("*.py"))
    paths = {path.relative_to(ROOT).as_posix() for path in found if named.search(path.read_text("utf-8"))}
    return {path for path in paths if not path.startswith(own)}


@pytest.mark.parametrize("wire", ["converse"])
def test_another_wire_is_its_folder_and_a_row_in_few_modules(wire: str) -> None:
    assert naming(wire) == NAMING
