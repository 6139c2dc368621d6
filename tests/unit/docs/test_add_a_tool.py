"""The tool of docs/how-to/add-a-tool.md works as the page says."""

import pytest

from stepline.tools import catalogue
from stepline.tools.spec import render_catalogue
from tests.unit.docs.source import DOCS, run_blocks
from tests.unit.tools.conftest import ToolConversation

PAGE = DOCS / "how-to/add-a-tool.md"


@pytest.fixture
def page():
    """The page's names: its module, its registry and its test, run one after the other."""
    return run_blocks(PAGE, **vars(catalogue))


def test_the_pages_own_test_passes(page):
    page["test_words_and_lines_are_counted"](ToolConversation(registry=page["default_registry"]()))


def test_the_tool_is_in_the_catalogue_and_refuses_what_its_schema_refuses(page):
    registry = page["default_registry"]()
    assert "## text.count" in render_catalogue(registry.specs)
    assert ToolConversation(registry=registry).call("text.count", {"paths": []}).error["code"] == "bad_params"
    assert (
        ToolConversation(registry=registry).call("text.count", {"path": "ar:x"}).error["code"] == "not_found"
    )
