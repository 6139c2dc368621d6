"""The rules of the house that no linter knows."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("path", modules(*AROUND), ids=name_of)
def test_a_test_module_does_too(path):
    assert len(path.read_text().splitlines()) <= TEST_LINES


@pytest.mark.parametrize("path", modules(*LIBRARY, *AROUND), ids=name_of)
def test_a_function_fits_onto_a_page(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < FUNCTION_LINES, node.name


@pytest.mark.parametrize("path", modules(*LIBRARY), ids=name_of)
def test_a_module_is_named_for_what_it_holds_and_finished(path):
    assert path.stem not in VAGUE
    assert not UNFINISHED.search(path.read_text())


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
