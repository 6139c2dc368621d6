"""The generated pages that need the CDK; tests/unit/docs has the others."""

import pytest

from docs.build import SYNTHESISED, load


@pytest.mark.parametrize("name", SYNTHESISED)
def test_a_generated_page_matches_its_source(name):
    page = load(name)
    assert page.PATH.read_text(encoding="utf-8") == page.render(), "run: make docs"
