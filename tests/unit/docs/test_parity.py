"""What docs/reference/parity.md claims is there."""

import ast
from collections import Counter
from functools import cache

from docs.build.parity import AREAS, NAMES, Name, Term, different, done, partial, planned, render
from tests.unit.docs.source import LIBRARY, ROOT


@cache
def names_of_tests(name):
    """Return the tests of a file below `tests/`; none if it is not there."""
    path = ROOT / "tests" / name
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {one.name for one in functions if one.name.startswith("test_")}


def problems():
    """Return the rows that claim what is not there, or that are named twice."""
    terms = [term for area in AREAS.values() for term in area]
    twice = [
        f"{term!r} is listed twice" for term, count in Counter(t.term for t in terms).items() if count > 1
    ]
    return twice + [f"{term.term!r}: {flaw}" for term in terms if (flaw := flaw_of(term))]


def flaw_of(term):
    if term.status == "not yet":
        return "what is not there yet has no module" if term.module or term.test else ""
    if term.status == "different":
        return flaw_of_module(term) if term.note else "what differs says why"
    file, _, name = term.test.partition("::")
    if name not in names_of_tests(file):
        return f"there is no test tests/{term.test}"
    if term.status == "in part" and not term.note:
        return "a part says what is missing"
    return flaw_of_module(term)


def flaw_of_module(term):
    if not term.module:
        return ""
    module = LIBRARY / term.module
    if not module.is_file():
        return f"there is no {term.module}"
    count = module.read_text(encoding="utf-8").count(term.word)
    if term.without is not None and count != 1:
        return f"{term.module} holds {term.word!r} {count} times, so nobody knows which one to break"
    return "" if count else f"{term.module} does not hold {term.word!r}"


def test_nothing_is_claimed_that_is_not_there():
    assert problems() == []


def test_a_false_claim_is_noticed():
    test = "unit/docs/test_parity.py::test_a_false_claim_is_noticed"
    claims = {
        "a module that is not there": done("x", "loop/nowhere.py", "x", test),
        "a word the module does not hold": done("x", "loop/act.py", "no such word", test),
        "a file of tests that is not there": done(
            "x", "loop/act.py", "def act", "unit/test_nowhere.py::test_x"
        ),
        "a test that is not there": done(
            "x", "loop/act.py", "def act", "unit/test_settings.py::test_nothing"
        ),
        "a file without a test's name": done("x", "loop/act.py", "def act", "unit/test_settings.py"),
        "a word to break that stands twice": done("x", "loop/act.py", "attempt", test, without=""),
        "a part without a note": partial("x", "loop/act.py", "def act", test, ""),
        "a difference without a reason": different("x", ""),
        "a difference that is nowhere": different("x", "why", "loop/act.py", "no such word"),
        "a plan with a module": Term("x", "not yet", "loop/act.py"),
    }
    assert [what for what, term in claims.items() if not flaw_of(term)] == []
    assert flaw_of(done("x", "loop/act.py", "def act(", test, without="")) == ""
    assert flaw_of(planned("x", "nothing")) == ""


def fault_of(name):
    module = LIBRARY / name.module
    if not name.reason:
        return "a name that differs says why"
    if not module.is_file() or name.word not in module.read_text(encoding="utf-8"):
        return f"{name.module} does not hold {name.word!r}"
    return ""


def test_a_name_of_the_design_that_has_another_one_here_is_there_and_says_why():
    assert [f"{name.old}: {fault}" for name in NAMES if (fault := fault_of(name))] == []
    assert len({name.old for name in NAMES}) == len(NAMES)
    page = render()
    assert [name.old for name in NAMES if f"| {name.old} | {name.new} |" not in page] == []


def test_a_name_that_is_nowhere_is_noticed():
    assert fault_of(Name("x", "y", "loop/act.py", "no such word", "why"))
    assert fault_of(Name("x", "y", "loop/nowhere.py", "def act", "why"))
    assert fault_of(Name("x", "y", "loop/act.py", "def act", ""))
