"""`.ci/failed`: the last lines of a build name every failing part, and each test, piece and recipe that failed in it."""

from __future__ import annotations

import subprocess

from tests.tiers import ROOT

LOGS = {
    "test": """\
 FAIL  tests/door/stop.test.ts > a stop ends the text
\x1b[31m FAIL \x1b[39m tests/words/codes.test.ts > each code has a sentence
 FAIL  tests/door/stop.test.ts > a stop ends the text
make[1]: *** [Makefile:56: test-page] Error 1
ERROR    stepline:act.py:90 a log line of a test that failed
FAILED tests/unit/loop/test_act.py::test_a_call[1] - assert 1 == 2
ERROR tests/unit/test_tiers.py - ImportError: no module
5 passed, 2 failed
""",
    "e2e-1": "drawn: make iam: passed in 200 s\ndrawn: make bench TOPICS=cost: FAILED in 9 s\n",
    "check": "nothing of this is shown\n",
}


def report(folder, *names):
    for name, log in LOGS.items():
        (folder / f"{name}.log").write_text(log)
    command = [str(ROOT / ".ci/failed"), str(folder), *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_each_failing_part_names_its_tests_pieces_and_recipes(tmp_path):
    assert (
        report(tmp_path, "test", "e2e-1")
        == """\
FAILED: test
   FAIL  tests/door/stop.test.ts > a stop ends the text
   FAIL  tests/words/codes.test.ts > each code has a sentence
  make[1]: *** [Makefile:56: test-page] Error 1
  FAILED tests/unit/loop/test_act.py::test_a_call[1] - assert 1 == 2
  ERROR tests/unit/test_tiers.py - ImportError: no module
FAILED: e2e-1
  drawn: make bench TOPICS=cost: FAILED in 9 s
"""
    )


def test_a_part_without_a_named_test_is_named_itself(tmp_path):
    assert report(tmp_path, "check") == "FAILED: check\n"


def test_a_build_without_a_failure_prints_no_names(tmp_path):
    assert report(tmp_path) == ""
