"""The pages of examples/, followed to the letter where they need no stage; the rest of them is in tests/e2e/test_guide.py."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stepline.local.scripted.server import ScriptedServer
from tests.support.guide import Guide, blocks_of, copy_examples
from tests.unit.docs.source import ROOT

PAGES = sorted((ROOT / "examples").glob("*/README.md"))
LIST = ROOT / "examples/README.md"
ROW = re.compile(r"^\| \[(\w+)\]\(\1/README\.md\) \| (.+) \|$", re.MULTILINE)
FIRST = re.compile(r"# [^\n]+\n\n(.+?\.)(?=\s)", re.DOTALL)
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
    copy_examples(project)
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


def test_the_list_has_the_first_sentence_of_each_page() -> None:
    opened = {name_of(page): FIRST.match(page.read_text()) for page in PAGES}
    said = {name: " ".join(found[1].split()) for name, found in opened.items() if found}
    assert dict(ROW.findall(LIST.read_text())) == said
    assert said.keys() == opened.keys()


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/README.md"], ids=["readme", "docs"])
def test_the_list_of_examples_is_linked(page: Path) -> None:
    found = {(page.parent / link).resolve() for link in LINK.findall(page.read_text())}
    assert LIST in found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_a_command_that_runs_the_example_and_one_that_tests_it(page: Path) -> None:
    text = page.read_text()
    assert text.index("\nRun it") < text.index("\nTest it")
    (tested,) = [block.text for block in blocks_of(page) if block.text.startswith("pytest ")]
    assert (ROOT / tested.split()[2].partition("::")[0]).is_file()
