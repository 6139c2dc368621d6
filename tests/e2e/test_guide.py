"""The pages of docs/how-to and examples that use the local stage, followed to the letter in a folder of a user's own."""

from __future__ import annotations

import pytest

from stepline.local.stage.deployed import install_environment
from tests.support.guide import EXAMPLES, Guide, blocks_of, copy_examples
from tests.unit.docs.source import DOCS

pytestmark = pytest.mark.emulator

PAGES = [
    page
    for page in (*sorted((DOCS / "how-to").glob("*.md")), *sorted(EXAMPLES.glob("*/README.md")))
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


def name_of(page):
    return page.parent.name if page.name == "README.md" else page.stem


@pytest.mark.parametrize("page", PAGES, ids=name_of, indirect=True)
def test_a_page_runs_on_the_stage_as_it_is_written(page, scripted, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    if page.is_relative_to(EXAMPLES):
        copy_examples(project)
    own = {"OWN_MODEL_URL": f"{scripted.deployed.model_url}/v1", "OWN_MODEL": "scripted"}
    environment = {name: value for name, value in install_environment().items() if name != "PYTHON"} | own
    Guide(page, project, environment, on_stage=True).follow()
