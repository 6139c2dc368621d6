"""The generated pages are what their modules in docs/build make of the source."""

import re
from pathlib import Path

import pytest

from docs.build import PAGES, SYNTHESISED, load

ROOT = Path(__file__).parents[3]
WRITTEN = sorted(
    path for folder in ("concepts", "how-to", "adr") for path in (ROOT / "docs" / folder).glob("*.md")
)


@pytest.mark.parametrize("name", [name for name in PAGES if name not in SYNTHESISED])
def test_a_generated_page_matches_the_source(name):
    page = load(name)
    assert page.PATH.read_text(encoding="utf-8") == page.render(), "run: make docs"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_each_test_that_a_page_names_exists(page):
    named = re.findall(r"`(tests/[\w/.]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []
