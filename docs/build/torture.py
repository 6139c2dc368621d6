"""docs/concepts/torture.md: twelve faults on this runtime and on others, from stored results."""

from __future__ import annotations

from typing import Final

from bench.torture.results import read_results
from bench.torture.torture_page import render_page
from docs.build import DOCS

PATH: Final = DOCS / "concepts/torture.md"


def render() -> str:
    """Return the page."""
    return str(render_page(read_results()))
