"""The pages of docs/how-to that use the local stage, followed to the letter in a folder of a user's own."""

from __future__ import annotations

import pytest

from stepline.local.stage.deployed import install_environment
from tests.support.guide import Guide, blocks_of
from tests.unit.docs.source import DOCS

pytestmark = pytest.mark.emulator

PAGES = [
    page
    for page in sorted((DOCS / "how-to").glob("*.md"))
    if any(block.kind == "on the stage" for block in blocks_of(page))
]


CHANGES_STAGE = ("stepline up", "make chat")


@pytest.fixture
def page(request, scripted, tmp_path):
    """A page; the stage has its own settings and bundle again after the test."""
    yield request.param
    scripts = [block.text for block in blocks_of(request.param) if block.kind == "on the stage"]
    if any(command in script for script in scripts for command in CHANGES_STAGE):
        scripted.command("up", cwd=tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem, indirect=True)
def test_a_page_runs_on_the_stage_as_it_is_written(page, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    environment = {name: value for name, value in install_environment().items() if name != "PYTHON"}
    Guide(page, project, environment, on_stage=True).follow()
