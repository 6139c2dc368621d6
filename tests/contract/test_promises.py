"""Promises of the parity page: each is broken in a copy of the library, and a test that names it must fail.

A row of the page says itself how it is broken, and by which test that is seen. A landing breaks a few that are drawn for
it, `make soak` all of them; the number is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from docs.build.parity import AREAS
from tests.support.budget import SOAK
from tests.support.draw import share

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "layers/runtime/python"


class Promise(NamedTuple):
    """A term of the page; the module that keeps it, the text there and one that breaks it; the tests that hold it."""

    term: str
    module: str
    kept: str
    broken: str
    tests: str


PROMISES = (
    Promise(
        "a reference to what is no text is refused",
        "loop/referred_content.py",
        "if not is_text(content.mime):",
        "if False:",
        "tests/unit/loop/test_referred_content.py",
    ),
    Promise(
        "a call learned anew has ended",
        "protocol/stream/record.py",
        "self._ended = True\n\n    def finish",
        "self._ended = False\n\n    def finish",
        "tests/unit/protocol/stream",
    ),
    Promise(
        "a write that speaks of what is searched waits",
        "protocol/decision/read.py",
        "self._check_apart(call)",
        "pass",
        "tests/unit/protocol/decision",
    ),
    Promise(
        "of a running program's output the end is kept",
        "adapters/sandbox/live_log.py",
        '"".join(self._pieces)[-LOG_CHARS:]',
        '"".join(self._pieces)[:LOG_CHARS]',
        "tests/unit/adapters/sandbox/test_live_log.py",
    ),
    Promise(
        "the event of a compaction names the turns that it sums up",
        "context/compaction.py",
        "turns[before : max(0, first_kept - 1)]",
        "turns[before:1]",
        "tests/unit/loop/test_make_room.py",
    ),
    Promise(
        "no secret of a bundle lies at `BUNDLE_ROOT`",
        "programs/bundle_files.py",
        "name.isprintable() and not _LEFT_OUT.search(name)",
        "name.isprintable()",
        "tests/unit/programs/test_bundle_files.py",
    ),
    Promise(
        "a pause that the server asks for has a limit",
        "local/client/session.py",
        "soon = refusal.retry_after_s <= self._pace.retry_after_max_s",
        "soon = True",
        "tests/unit/local/client/test_pace.py",
    ),
    Promise(
        "a patch that does not fit suggests a read",
        "tools/workfiles/patch.py",
        '"suggested_read": _suggest(path, found.target_line, found.line_count),',
        "",
        "tests/unit/tools/workfiles/test_patch.py",
    ),
    Promise(
        "a patched file's syntax is checked",
        "tools/workfiles/patch.py",
        "if flaw is None:",
        "if True:",
        "tests/unit/tools/workfiles/test_patch.py",
    ),
    Promise(
        "a hunk is not guessed among several places",
        "tools/workfiles/unified_diff.py",
        "        if len(places) == 1:\n            return places[0], False",
        "        if places:\n            return places[0], False",
        "tests/unit/tools/workfiles/test_unified_diff.py",
    ),
    Promise(
        "a search of a folder that was not pulled says so",
        "tools/workfiles/rg.py",
        "unpulled = not below and",
        "unpulled = False and",
        "tests/unit/tools/workfiles/test_rg.py",
    ),
    Promise(
        "a checkout removes nothing that this turn wrote, unless it is forced",
        "tools/workfiles/checkout.py",
        'if mode == "replace" and not params.get("force", False):',
        "if False:",
        "tests/unit/tools/workfiles/test_checkout.py",
    ),
    Promise(
        "a turn whose project was not saved is saved with the next one",
        "log/versions.py",
        "for turn in reversed(missing):",
        "for turn in missing[:1]:",
        "tests/unit/log/test_versions.py",
    ),
)
"""Promises beside the rows, of rows that keep more than one."""
ROWS = tuple(
    Promise(row.term, row.module, row.word, row.without, f"tests/{row.test}")
    for area in AREAS.values()
    for row in area
    if row.without is not None
)
ALL = (*PROMISES, *ROWS)
LANDING = share(ALL, len(ALL), everything=SOAK)


@pytest.mark.parametrize("promise", LANDING, ids=lambda promise: re.sub(r"\W+", "_", promise.term)[:60])
def test_a_broken_promise_is_seen(promise: Promise, tmp_path: Path) -> None:
    copy = tmp_path / "stepline"
    shutil.copytree(LIBRARY / "stepline", copy, ignore=shutil.ignore_patterns("__pycache__"))
    module = copy / promise.module
    text = module.read_text()
    assert text.count(promise.kept) == 1
    module.write_text(text.replace(promise.kept, promise.broken))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *promise.tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "STEPLINE_SOAK": "", "STEPLINE_TIER": "nightly"}  # noqa: TID251 - the whole of it, for a process
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, f"{promise.term}: broken, and no test fails\n{done.stdout[-3000:]}"


def test_the_broken_promises_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert len({promise.term for promise in ALL}) == len(ALL)
    with capsys.disabled():
        print(f"\n{len(LANDING)} of {len(ALL)} promises broken")  # noqa: T201 - the count is asked for
