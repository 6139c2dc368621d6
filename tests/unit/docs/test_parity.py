"""docs/reference/parity.md: each row names a test that exists, and a difference has a reason."""

import ast
from collections import Counter
from functools import cache

import pytest

from docs.build.parity import AREAS, Term, absent, differs, done
from tests.unit.docs.source import ROOT

TERMS = [term for area in AREAS.values() for term in area]
HERE = "unit/docs/test_parity.py::test_a_term_is_listed_once"


@cache
def names_of_tests(file):
    """Return the tests of a file below `tests/`; none if it does not exist."""
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {one.name for one in functions if one.name.startswith("test_")}


def flaw_of(term):
    """Return what is wrong with a row, "" if nothing."""
    if term.status != "done" and not term.note:
        return "a note is missing"
    if term.status == "absent":
        return ""
    file, _, name = term.test.partition("::")
    return "" if name in names_of_tests(file) else f"there is no test tests/{term.test}"


def test_every_row_names_a_test_that_exists_and_a_difference_has_a_reason():
    assert [f"{term.term!r}: {flaw}" for term in TERMS if (flaw := flaw_of(term))] == []


def test_a_term_is_listed_once():
    assert [term for term, count in Counter(term.term for term in TERMS).items() if count > 1] == []


@pytest.mark.parametrize(
    "term",
    [
        done("x", "unit/docs/test_absent.py::test_a_term_is_listed_once"),
        done("x", "unit/docs/test_parity.py::test_absent"),
        done("x", "unit/docs/test_parity.py"),
        differs("x", HERE, ""),
        differs("x", "", "why"),
        absent("x", ""),
    ],
)
def test_a_flawed_row_is_found(term: Term):
    assert flaw_of(term)
