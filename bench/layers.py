"""The sizes of the dependency layers, unzipped, as they go to AWS; wheels are downloaded on the first run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.budget import BUDGETS
from bench.row import Row
from stepline_cdk.code import PYTHON_VERSION, build_deps

LAYERS: Final = Path(__file__).resolve().parents[1] / "layers"


OF: Final = {
    "deps": "every function but the authorizer",
    "authorizer": "the authorizer alone",
    "memory": "Act and Search alone",
    "mcp": "Act alone",
    "tracing": "the functions that send traces",
}


def rows() -> list[Row]:
    """Return `<layer>_layer_mb`, in megabytes of a million bytes."""
    return [_row(name) for name in OF]


def _row(name: str) -> Row:
    folder = build_deps(LAYERS / name, PYTHON_VERSION) / "python"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    metric, note = f"{name}_layer_mb", f"unzipped, of {OF[name]}"
    return Row(metric=metric, value=round(size / 1e6, 2), unit="MB", goal=BUDGETS[metric].aim, note=note)
