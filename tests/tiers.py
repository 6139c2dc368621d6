"""Which test runs when; `tests/tier_table.py` has the rows.

`landing`: every `make test` and `.ci/run`. `nightly`: `make nightly`, and in one of `SHARES` landings, which the
commit's hash draws. `soak`: what `tests/support/budget.py` gives to `make soak` alone.

A test is in the landing unless it needs the stage or `NIGHTLY` lists it. Of the tests on the stage a landing runs those
that `STAGE` names, and all of a file whose modules changed; of the others, all whose sources changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.draw import draw_number
from tests.tier_table import (
    ALL,
    CONTRACT_SOURCES,
    DOCS,
    EMULATOR,
    IAM_SOURCES,
    LIBRARY,
    NIGHTLY,
    PAGE,
    PYTHON_SOURCES,
    STAGE,
    TYPED,
    TYPED_SOURCES,
)

ROOT = Path(__file__).resolve().parents[1]
DURATIONS = ROOT / "tests/e2e/durations.json"
UNIT = ROOT / "tests/durations.json"
BENCH = ROOT / "bench/durations.json"
"""Seconds of each topic, as the last run of all of them took them."""
TIER = os.environ.get("STEPLINE_TIER", "")  # noqa: TID251 - who runs the tests says how many
"""`landing` leaves out nightly tests; `nightly` and none run what pytest is asked for."""
DRAW = os.environ.get("STEPLINE_DRAW", "")  # noqa: TID251 - as above
"""The commit whose hash draws a share of the nightly tests."""
CHANGED = os.environ.get("STEPLINE_CHANGED", "")  # noqa: TID251 - as above
"""A file with the paths that a landing changes; without one, a landing changes what is not committed or merged."""
BASE = os.environ.get("STEPLINE_BASE", "")  # noqa: TID251 - as above
"""The commit from which changes are counted."""
SHARES = 16
"""Landings after which every nightly test has run once, if each draws another share."""
TOPIC_MAX_S = 10
"""Seconds of a topic of the bench that a change of its module adds to a landing; longer ones wait for their draw."""
UNIT_SHARES = 4
"""Landings on a second Python after which each unit test has run on it once, if each draws another share."""
EXTRA_MAX_S = 120
"""Recorded seconds of tests that one landing adds because their modules changed."""
UNKNOWN_S = 10
"""Assumed duration of a test on the stage that has not run yet."""
LANDING_HOURS = 4
"""Commits of one landing are not older than this, where no base is named."""


class Piece(NamedTuple):
    """Nightly work that is not one test: a command, the seconds that it takes, and the sources that call for it."""

    command: str
    seconds: float
    sources: tuple[str, ...] = ()


def _pieces() -> dict[str, Piece]:
    topics: dict[str, float] = json.loads(BENCH.read_text())
    return {
        "python": Piece(".ci/matrix --unit debian:forky", 200, PYTHON_SOURCES),
        "iam": Piece("make iam", 100, IAM_SOURCES),
        **{
            f"bench {topic}": Piece(
                f"make bench TOPICS={topic}",
                seconds,
                (f"/bench/{topic}.py",) if seconds <= TOPIC_MAX_S else (),
            )
            for topic, seconds in topics.items()
        },
    }


PIECES: Mapping[str, Piece] = _pieces()


def deal(costs: Mapping[str, float], shares: int) -> list[list[str]]:
    """Deal names into shares of about equal cost, the costliest first."""
    dealt: list[list[str]] = [[] for _ in range(shares)]
    sums = [0.0] * shares
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        least = sums.index(min(sums))
        dealt[least].append(name)
        sums[least] += costs[name]
    return dealt


def touches(changed: Iterable[str], sources: Sequence[str]) -> bool:
    """Report whether a changed path is below one of the sources: `/` begins at the root, else the library."""
    below = tuple(one[1:] if one.startswith("/") else LIBRARY + one for one in sources)
    return bool(below) and any(path.startswith(below) for path in changed)


def in_landing(test: str) -> bool:
    """Report whether every landing runs a test, by its node id."""
    name = test.removeprefix("tests/")
    if row_of(test):
        return False
    if name.startswith("e2e/"):
        file, _, called = name.removeprefix("e2e/").partition("::")
        listed = STAGE[file].landing if file in STAGE else ()
        return listed == ALL or called in listed or called.partition("[")[0] in listed
    return not EMULATOR.search(name)


def row_of(test: str) -> str:
    """Return the row of `NIGHTLY` that a test belongs to, "" if none."""
    name = test.removeprefix("tests/")
    return next((row for row in NIGHTLY if _holds(row, name)), "")


def _holds(row: str, name: str) -> bool:
    if "::" in row:
        return name.startswith(row)
    file, _, word = row.partition("[")
    cases = name.rstrip("]").partition("[")[2].split("-")
    return name.startswith(file if file.endswith("/") else f"{file}::") and (
        not word or word.rstrip("]") in cases
    )


def select(tests: Sequence[str], *, drawn_by: str = "", changed: Sequence[str] = ()) -> set[str]:
    """Return the tests that a landing runs, of the node ids that there are.

    `drawn_by` is the commit whose share of the nightly tests is added; `changed` are paths from the root.
    """
    chosen = {test for test in tests if in_landing(test)}
    rows = {test: row_of(test) for test in tests if test not in chosen}
    drawn = list(NIGHTLY)[_share(drawn_by) :: SHARES] if drawn_by else []
    chosen.update(test for test, row in rows.items() if row and (row in drawn or _concerns(test, changed)))
    costs = _durations()
    others = {test: costs.get(test, UNKNOWN_S) for test, row in rows.items() if not row}
    if drawn_by:
        chosen.update(deal(others, SHARES)[_share(drawn_by)])
    spent = 0.0
    for test in sorted(others, key=lambda test: zlib.crc32((drawn_by + test).encode())):
        if test not in chosen and _concerns(test, changed) and spent + others[test] <= EXTRA_MAX_S:
            spent += others[test]
            chosen.add(test)
    return chosen


def _share(drawn_by: str) -> int:
    return draw_number(drawn_by) % SHARES


def _concerns(test: str, changed: Sequence[str]) -> bool:
    path = test.partition("::")[0]
    if EMULATOR.search(test):
        return touches(changed, CONTRACT_SOURCES)
    row = row_of(test)
    sources = NIGHTLY[row] if row else STAGE[path.removeprefix("tests/e2e/")].sources
    return path in changed or touches(changed, sources)


def _durations() -> dict[str, float]:
    found: dict[str, float] = json.loads(DURATIONS.read_text())
    return found


def pieces(*, drawn_by: str, changed: Sequence[str]) -> list[str]:
    """Return the pieces of nightly work that a landing runs: the drawn share, and those whose sources changed."""
    share = deal({name: piece.seconds for name, piece in PIECES.items()}, SHARES)
    drawn = share[_share(drawn_by)]
    return [name for name, piece in PIECES.items() if name in drawn or touches(changed, piece.sources)]


def unit_files(*, drawn_by: str = "") -> list[str]:
    """Return the unit tests of a second Python: the files that a landing's commit draws, else their folder."""
    if not drawn_by:
        return ["tests/unit"]
    costs: dict[str, float] = json.loads(UNIT.read_text())
    files = (path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/unit").rglob("test_*.py"))
    shares = deal({file: costs.get(file, 1.0) for file in files}, UNIT_SHARES)
    return shares[draw_number(drawn_by) // SHARES % UNIT_SHARES]


def starts_stage(changed: Sequence[str]) -> bool:
    """Report whether a change needs a stage: one of documentation or of the page alone does not."""
    return not changed or any(not touches([path], (*DOCS, *PAGE)) for path in changed)


def changes(base: str = "") -> list[str]:
    """Return the paths that a landing changes, from `base`, the branch's beginning, or the commits of one session."""
    base = base or _merge_base() or _older_commit()
    return _git("diff", "--name-only", base, "HEAD").split() if base else []


def changes_here() -> list[str]:
    """Return the paths in which this work tree differs from the branch's beginning, or from its last commit."""
    changed = _git("diff", "--name-only", _merge_base() or "HEAD").split()
    return [*changed, *_git("ls-files", "--others", "--exclude-standard").split()]


def _merge_base() -> str:
    found = _git("merge-base", "HEAD", "origin/HEAD")
    return "" if found == _git("rev-parse", "HEAD") else found


def _older_commit() -> str:
    newest = int(_git("log", "-1", "--format=%ct") or 0)
    return _git("rev-list", "-1", f"--before={newest - LANDING_HOURS * 3600}", "HEAD")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def keep_durations(files: Iterable[str]) -> None:
    """Merge the durations of this run's halves into the tracked file."""
    found = _durations()
    for file in files:
        written: dict[str, float] = json.loads(Path(file).read_text())
        # pytest-split cannot divide tests that all take nothing: it ends with an IndexError.
        found |= {test: max(round(seconds, 1), 0.1) for test, seconds in written.items()}
    DURATIONS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def changed_paths() -> list[str]:
    """Return the paths in the file that STEPLINE_CHANGED names; without it, those of the work tree."""
    return Path(CHANGED).read_text().split() if CHANGED else changes_here()


def types(*, drawn_by: str, changed: Sequence[str]) -> list[str]:
    """Return the folders whose types a landing checks: all where the app changed, or one of the shares draws it."""
    whole = touches(changed, TYPED_SOURCES) or (bool(drawn_by) and _share(drawn_by) == 0)
    return [] if whole else [path.rstrip("/") for path in TYPED]


def main(asked: str, *files: str) -> None:
    """Print what `.ci/run` asks for: `changes`, `stage` (yes or no), `share`, `pieces` (their commands), `types` (folders),
    `unit` (paths).

    `durations FILE…` merges those of this run into the tracked file.
    """
    lines: dict[str, Callable[[], Iterable[str]]] = {
        "changes": lambda: changes(BASE),
        "stage": lambda: ["yes" if starts_stage(changed_paths()) else "no"],
        "share": lambda: [f"{_share(DRAW) + 1} of {SHARES}"],
        "pieces": lambda: [PIECES[name].command for name in pieces(drawn_by=DRAW, changed=changed_paths())],
        "types": lambda: types(drawn_by=DRAW, changed=changed_paths()),
        "unit": lambda: unit_files(drawn_by=DRAW if TIER == "landing" else ""),
    }
    if asked == "durations":
        keep_durations(files)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines[asked]())


if __name__ == "__main__":
    main(*sys.argv[1:])
