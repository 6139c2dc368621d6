"""The pages of examples/ that need no stage, followed to the letter; the others are in tests/e2e/test_guide.py."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stepline.local.scripted.server import ScriptedServer
from tests.support.guide import Guide, blocks_of
from tests.unit.docs.source import ROOT

PAGES = sorted((ROOT / "examples").glob("*/README.md"))
LINK = re.compile(r"\]\(([^)#\s]+)")


def name_of(page: Path) -> str:
    return page.parent.name


@pytest.fixture(scope="module")
def environment() -> Iterator[Mapping[str, str]]:
    """The environment of a reader whose own model server is the scripted one."""
    with ScriptedServer(token_delay_ms=0) as server:
        yield {"OWN_MODEL_URL": f"{server.url}/v1", "OWN_MODEL": "scripted"}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.kind == "run" for block in blocks_of(page))],
    ids=name_of,
)
def test_an_example_prints_the_transcript_of_its_page(
    page: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    project = tmp_path / "project"
    shutil.copytree(page.parent.parent, project / "examples", ignore=shutil.ignore_patterns(".knowledge"))
    Guide(page, project, {**environment, "STEPLINE_HOME": str(tmp_path / "home")}).follow()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_an_example_lead_to_files(page: Path) -> None:
    found = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert found
    assert [link for link in found if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_an_example_runs_or_says_why_not(page: Path) -> None:
    blocks = [
        block
        for block in blocks_of(page)
        if (not block.kind and block.language != "text") or (block.kind == "not run" and not block.word)
    ]
    assert [(block.line, block.language) for block in blocks] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_an_example_is_listed_in_the_documentation(page: Path) -> None:
    assert f"../examples/{name_of(page)}" in (ROOT / "docs/README.md").read_text()
