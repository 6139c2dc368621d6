"""What holds for the repository as a whole: words, links, places. Sizes are in tests/repository."""

from __future__ import annotations

import ast
import re

import pytest

from stepline.loop.graph import LAUNCHES, ROUTES, TASKS
from tests.unit.docs.markdown import anchors, links
from tests.unit.docs.source import DOCS, LIBRARY, ROOT, files, name, nodes, pages, python_files

AGENTS_LINES_MAX = 120

TESTS = ROOT / "tests"
CODE = ("layers/runtime", "lambdas", "stepline_cdk", "docs/build", "bench")

# Put together here, so that this file does not hold them.
PLACES = ("/" + "home/", "/" + "root/")
HUNK_HEADER = re.compile(r"@@ -[0-9,]+ \+[0-9,]+ @@|`@@`")
DOCSTRING = re.compile(r'(?:\s*#.*\n)*\s*r?"""\s*[^\s"]')
LEFT_OVERS = ("TO" + "DO", "FIX" + "ME", "@" + "@")


def text(path):
    return path.read_text(encoding="utf-8")


def readable():
    """Every text file that people wrote."""
    kinds = {".py", ".md", ".toml", ".json", ".txt", ".yml", ".yaml", ".lock", ".cfg", ""}
    return [p for p in files() if p.suffix in kinds and not p.is_relative_to(TESTS / "data")]


def test_every_module_and_package_has_a_docstring():
    silent = [name(p) for p in python_files(*CODE) if not DOCSTRING.match(text(p))]
    assert silent == []


def test_every_folder_of_the_library_is_a_package():
    folders = {p.parent for p in python_files(name(LIBRARY))}
    assert [name(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_file_names_a_path_of_a_developers_machine():
    written = [
        p for p in readable() if not p.is_relative_to(TESTS / "unit/model")
    ]  # these have paths to refuse
    assert [(name(p), place) for p in written for place in PLACES if place in text(p)] == []


def test_no_page_is_unfinished():
    texts = {name(p): HUNK_HEADER.sub("", text(p)) for p in pages()}
    assert [(page, word) for page, said in texts.items() for word in LEFT_OVERS if word in said] == []


def test_locks_name_no_host():
    pins = [p for p in files() if p.suffix == ".lock" or p.name == "requirements.txt"]
    hosts = {host for p in pins for host in re.findall(r"https?://([^/\"\s]+)", text(p))}
    for lock in (p for p in files() if p.name == "package-lock.json"):
        hosts |= set(re.findall(r'"resolved": "https?://([^/]+)', text(lock)))
    assert hosts == set()


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_leads_somewhere(page):
    broken = [target for target in links(page) if not leads(page, target)]
    assert broken == []


def leads(page, target):
    if re.match(r"[a-z]+:", target):
        return target.startswith("https://")
    path, _, anchor = target.partition("#")
    other = (page.parent / path).resolve() if path else page
    if not other.exists():
        return False
    return not anchor or (other.suffix == ".md" and anchor in anchors(other))


def test_every_page_is_on_the_map():
    targets = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    targets |= {(DOCS / "adr" / link).resolve() for link in links(DOCS / "adr/README.md")}
    assert [
        name(p) for p in pages() if p.is_relative_to(DOCS) and p not in targets | {DOCS / "README.md"}
    ] == []


def test_every_page_that_the_code_refers_to_exists():
    broken = []
    for path in python_files(*CODE):
        for page, anchor in re.findall(r"(?<![\w:/])docs/([\w./-]+\.md)(?:#([\w-]+))?", text(path)):
            target = DOCS / page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append((name(path), page, anchor))
    assert broken == []


MADE = {"bench/results.json", "bench/load.json"}
"""Files that a command writes."""


def test_every_file_a_page_names_exists():
    broken = []
    for page in pages():
        for named in re.findall(
            r"`((?:stepline|tests|lambdas|stepline_cdk|bench|docs)/[\w/]+\.\w+)`", text(page)
        ):
            if named in MADE:
                continue
            found = ROOT / named if not named.startswith("stepline/") else LIBRARY.parent / named
            if not found.exists():
                broken.append((name(page), named))
    assert broken == []


def test_every_state_of_the_loop_has_a_handler():
    for task in TASKS:
        module = ROOT / "lambdas" / f"{task.function}.py"
        assert "handler" in {node.name for _, node in nodes([module]) if isinstance(node, ast.FunctionDef)}
    assert {task.name for task in TASKS} <= {*ROUTES.values(), *LAUNCHES.values()}


def test_every_make_target_that_a_page_names_exists():
    targets = set(re.findall(r"^([a-z0-9-]+):", text(ROOT / "Makefile"), re.MULTILINE))
    named = {
        (name(page), word)
        for page in pages()
        for line in re.findall(r"(?:^|`)make ([a-z0-9 -]+)", text(page), re.MULTILINE)
        for word in line.split()
        if not line.startswith("-")
    }
    assert {(where, word) for where, word in named if word not in targets} == set()


def test_every_choice_of_a_deployment_is_explained():
    (stage,) = [
        n
        for _, n in nodes([ROOT / "stepline_cdk/stage.py"])
        if isinstance(n, ast.ClassDef) and n.name == "Stage"
    ]
    choices = {node.target.id for node in stage.body if isinstance(node, ast.AnnAssign)} - {"name"}
    page = text(DOCS / "how-to/deploy.md")
    assert {choice for choice in choices if f"`{choice}`" not in page} == set()


def test_the_note_for_contributors_is_short():
    assert len(text(ROOT / "AGENTS.md").splitlines()) < AGENTS_LINES_MAX
