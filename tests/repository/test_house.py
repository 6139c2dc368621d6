"""The rules of the house that no linter knows."""

import ast
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ("layers/runtime/python/stepline", "bundles", "lambdas", "stacks", "docs/build")
AROUND = ("tests", "bench")
TEST_LINES, FUNCTION_LINES = 500, 60
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "misc", "base_utils"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def modules(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


def test_a_test_module_is_not_too_long():
    assert [name_of(p) for p in modules(*AROUND) if len(p.read_text().splitlines()) > TEST_LINES] == []


def test_a_function_fits_onto_a_page():
    long = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in modules(*LIBRARY, *AROUND)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES
    ]
    assert long == []


def test_a_module_is_named_for_what_it_holds_and_finished():
    assert [
        name_of(p) for p in modules(*LIBRARY) if p.stem in VAGUE or UNFINISHED.search(p.read_text())
    ] == []


def test_a_tests_file_has_a_name_of_its_own():
    stems = Counter(path.stem for path in modules("tests") if path.stem.startswith("test_"))
    assert [stem for stem, count in stems.items() if count > 1] == []


def test_make_lists_every_target():
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    named = {line.split()[0] for line in listed.splitlines()}
    assert {"chat", "test", "check", "e2e", "bench", "docs", "synth", "up", "down", "clean"} <= named
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named == set(targets)


def test_the_build_can_be_run():
    assert os.access(ROOT / ".ci/run", os.X_OK)
