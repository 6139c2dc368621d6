from tests.unit.docs import parity


def test_nothing_is_claimed_that_is_not_there():
    assert parity.problems() == []


def test_the_page_is_what_the_table_says():
    assert parity.PAGE.read_text() == parity.render(), "run: python -m tests.unit.docs"


def test_a_false_claim_is_noticed():
    claims = {
        "a module that is not there": parity.done("x", "loop/nowhere.py", "x", "unit/test_settings.py"),
        "a word the module does not hold": parity.done(
            "x", "loop/act.py", "no such word", "unit/test_settings.py"
        ),
        "a test that is not there": parity.done("x", "loop/act.py", "def act", "unit/test_nowhere.py"),
        "a part without a note": parity.partial("x", "loop/act.py", "def act", "unit/test_settings.py", ""),
        "a plan with a module": parity.Term("x", "planned", "loop/act.py"),
    }
    assert [what for what, term in claims.items() if not parity._flaw(term)] == []
