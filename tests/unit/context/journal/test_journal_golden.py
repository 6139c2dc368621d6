"""The journal's requests: what the golden files say, part by part."""

from __future__ import annotations

import pytest

from tests.unit.context.journal.journal_golden import GOLDEN, cases
from tests.unit.context.journal.journal_lines import forged_in_journal

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_a_request_is_what_its_golden_file_says(name: str) -> None:
    wanted = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert CASES[name] == wanted, "if this is meant: python -m tests.unit.context.journal.journal_golden"


def test_golden_files_match_the_set_of_requests() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_unindented_lines_of_the_digest_are_structure(name: str) -> None:
    digest = CASES[name].partition("<<< HUMAN cached\n")[2].partition("<<< HUMAN")[0]
    assert forged_in_journal(digest) == []
