"""What docs/reference/parity.md claims is there."""

from collections import Counter

from docs.build.parity import AREAS, NAMES, Name, Term, done, partial, render
from tests.unit.docs.source import LIBRARY, ROOT


def problems():
    """Return the rows that claim what is not there, or that are named twice."""
    terms = [term for area in AREAS.values() for term in area]
    twice = [
        f"{term!r} is listed twice" for term, count in Counter(t.term for t in terms).items() if count > 1
    ]
    return twice + [f"{term.term!r}: {flaw}" for term in terms if (flaw := flaw_of(term))]


def flaw_of(term):
    if term.status == "planned":
        return "a planned term has no module" if term.module or term.test else ""
    module = LIBRARY / term.module
    if not module.is_file():
        return f"there is no {term.module}"
    if term.word not in module.read_text(encoding="utf-8"):
        return f"{term.module} does not hold {term.word!r}"
    if not (ROOT / "tests" / term.test).is_file():
        return f"there is no tests/{term.test}"
    return "a partial term says what is missing" if term.status == "partial" and not term.note else ""


def test_nothing_is_claimed_that_is_not_there():
    assert problems() == []


def test_a_false_claim_is_noticed():
    claims = {
        "a module that is not there": done("x", "loop/nowhere.py", "x", "unit/test_settings.py"),
        "a word the module does not hold": done("x", "loop/act.py", "no such word", "unit/test_settings.py"),
        "a test that is not there": done("x", "loop/act.py", "def act", "unit/test_nowhere.py"),
        "a part without a note": partial("x", "loop/act.py", "def act", "unit/test_settings.py", ""),
        "a plan with a module": Term("x", "planned", "loop/act.py"),
    }
    assert [what for what, term in claims.items() if not flaw_of(term)] == []


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
