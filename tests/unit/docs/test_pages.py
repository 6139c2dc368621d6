"""The generated pages are what their modules in docs/build make of the source."""

import pytest

from docs.build import PAGES, SYNTHESISED, load


@pytest.mark.parametrize("name", [name for name in PAGES if name not in SYNTHESISED])
def test_a_generated_page_is_what_the_source_says(name):
    page = load(name)
    assert page.PATH.read_text(encoding="utf-8") == page.render(), "run: make docs"
