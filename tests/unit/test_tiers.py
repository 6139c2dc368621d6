"""The table of tiers: its rows name tests that exist, and its draws leave nothing out."""

from __future__ import annotations

import ast
import json
from itertools import chain

import pytest

from bench.row import METRICS
from tests import tiers
from tests.run_parallel import find_files
from tests.tiers import (
    ALL,
    BENCH,
    PIECES,
    ROOT,
    SHARES,
    STAGE,
    TOPIC_MAX_S,
    deal,
    in_landing,
    pieces,
    select,
    starts_stage,
)

E2E = ROOT / "tests/e2e"
TESTS = [f"tests/e2e/test_{name}.py::test_a" for name in ("kill", "storm", "restore", "guide", "turn")]
HASHES = [f"{number:08x}" for number in range(SHARES)]


def functions(file):
    tree = ast.parse((E2E / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def roots(sources):
    return [ROOT / (path[1:] if path.startswith("/") else tiers.LIBRARY + path) for path in sources]


def test_every_file_on_the_stage_has_a_row_and_every_row_a_file():
    assert STAGE.keys() == {path.relative_to(E2E).as_posix() for path in E2E.rglob("test_*.py")}


@pytest.mark.parametrize("file", STAGE)
def test_a_row_names_tests_of_its_file(file):
    named = {name.partition("[")[0] for name in STAGE[file].landing}
    assert named <= {*ALL, *functions(file)}


@pytest.mark.parametrize("file", STAGE)
def test_the_sources_of_a_row_exist(file):
    assert [path for path in roots(STAGE[file].sources) if not path.exists()] == []


@pytest.mark.parametrize("row", tiers.NIGHTLY)
def test_a_nightly_row_names_tests_that_exist(row):
    file, _, named = row.partition("::")
    path = ROOT / "tests" / file.partition("[")[0]
    files = path.rglob("test_*.py") if path.is_dir() else [path]
    functions = [
        node.name
        for one in files
        for node in ast.walk(ast.parse(one.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert any(name.startswith(named.partition("[")[0] or "test_") for name in functions)


@pytest.mark.parametrize("row", tiers.NIGHTLY)
def test_the_sources_of_a_nightly_row_exist(row):
    assert [path for path in roots(tiers.NIGHTLY[row]) if not path.exists()] == []


def test_a_row_of_a_folder_and_a_word_holds_the_cases_of_its_files():
    row = "unit/loop/[chat]"
    for test in ("test_act.py::test_x[chat]", "staging/test_y.py::test_y[chat-5]"):
        assert tiers.row_of(f"tests/unit/loop/{test}") == row
    for test in ("unit/loop/test_act.py::test_x", "unit/model/test_x.py::test_x[chat]"):
        assert tiers.row_of(f"tests/{test}") == ""


def test_a_row_of_a_file_and_a_word_holds_the_cases_that_have_it():
    row = "contract/test_erasure.py[moto]"
    assert tiers.row_of("tests/contract/test_erasure.py::test_a[moto-x]") == row
    assert tiers.row_of("tests/contract/test_erasure.py::test_a[memory-motorway]") == ""


def test_every_nightly_row_is_drawn_by_one_share():
    tests = [row if "::" in row else row.replace("[", "::test_a[") for row in tiers.NIGHTLY]
    tests = [test if "::" in test else f"{test}::test_a" for test in tests]
    drawn = [test for drawn_by in HASHES for test in select(tests, drawn_by=drawn_by)]
    assert sorted(drawn) == sorted(tests)


def test_a_changed_source_adds_all_of_a_row():
    tests = [f"tests/stacks/test_alarm.py::test_{i}" for i in range(100)]
    assert select(tests) == set()
    assert select(tests, changed=["stepline_cdk/alarm.py"]) == set(tests)


def test_without_a_file_the_changes_are_those_of_the_work_tree(monkeypatch):
    answers = {"merge-base HEAD origin/HEAD": "", "rev-parse HEAD": "a", "diff --name-only HEAD": "README.md"}
    answers["ls-files --others --exclude-standard"] = "new.py"
    monkeypatch.setattr(tiers, "_git", lambda *asked: answers[" ".join(asked)])
    assert tiers.changes_here() == ["README.md", "new.py"]


def test_the_app_is_typed_where_it_changed_and_by_one_share():
    changed = ["layers/runtime/python/stepline/settings.py"]
    assert "stacks" not in tiers.types(drawn_by=HASHES[1], changed=changed)
    assert tiers.types(drawn_by=HASHES[1], changed=changed)
    assert [drawn_by for drawn_by in HASHES if not tiers.types(drawn_by=drawn_by, changed=changed)] == HASHES[
        :1
    ]
    assert tiers.types(drawn_by=HASHES[1], changed=["stepline_cdk/alarm.py"]) == []


def test_four_landings_run_every_unit_test_on_the_second_python():
    drawn = [tiers.unit_files(drawn_by=f"{number * SHARES:08x}") for number in range(tiers.UNIT_SHARES)]
    assert sorted(chain(*drawn)) == sorted(find_files(["tests/unit"]))
    assert tiers.unit_files() == ["tests/unit"]


def test_names_are_dealt_once_and_evenly():
    costs = {f"n{i}": float(i % 7) for i in range(50)}
    shares = deal(costs, 4)
    assert sorted(chain(*shares)) == sorted(costs)
    sums = [sum(costs[name] for name in share) for share in shares]
    assert max(sums) - min(sums) <= max(costs.values())


def test_every_nightly_test_is_drawn_by_one_share():
    nightly = [test for test in TESTS if not in_landing(test)]
    drawn = [test for drawn_by in HASHES for test in select(TESTS, drawn_by=drawn_by) if test in nightly]
    assert sorted(drawn) == sorted(nightly)


def test_every_piece_is_drawn_by_one_share():
    assert sorted(chain.from_iterable(pieces(drawn_by=one, changed=()) for one in HASHES)) == sorted(PIECES)


def test_a_landing_without_a_draw_runs_the_tests_that_are_named():
    assert select(TESTS) == {"tests/e2e/test_turn.py::test_a"}


def test_a_changed_module_and_a_changed_test_add_the_tests_that_concern_them():
    changed = [tiers.LIBRARY + "log/fence.py", "tests/e2e/test_guide.py"]
    added = {f"tests/e2e/test_{name}.py::test_a" for name in ("kill", "guide", "turn")}
    assert select(TESTS, changed=changed) == added


def test_added_tests_end_at_a_bound(monkeypatch):
    monkeypatch.setattr(tiers, "EXTRA_MAX_S", tiers.UNKNOWN_S)
    tests = [f"tests/e2e/test_kill.py::test_{i}" for i in range(5)]
    assert len(select(tests, changed=["tests/e2e/test_kill.py"])) == 1


def test_a_changed_lock_runs_the_newest_python_and_a_changed_role_the_roles():
    without = set(pieces(drawn_by=HASHES[0], changed=()))
    added = set(pieces(drawn_by=HASHES[0], changed=["requirements.lock", "stepline_cdk/access.py"]))
    assert added == without | {"python", "iam"}


@pytest.mark.parametrize(
    ("changed", "starts"),
    [
        (["docs/concepts/log.md", "README.md"], False),
        (["web/src/thread/places.ts"], False),
        (["docs/build/cost.py", "stepline_cdk/cost.py"], True),
        ([], True),
    ],
)
def test_documents_and_the_page_alone_start_no_stage(changed, starts):
    assert starts_stage(changed) is starts


def test_a_changed_topic_of_the_bench_that_is_short_runs_in_its_own_landing():
    changed = [f"bench/{topic}.py" for topic in METRICS]
    assert [path for path in changed if not (ROOT / path).is_file()] == []
    topics = json.loads(BENCH.read_text())
    short = {f"bench {topic}" for topic, seconds in topics.items() if seconds <= TOPIC_MAX_S}
    drawn = set(pieces(drawn_by=HASHES[0], changed=[]))
    assert set(pieces(drawn_by=HASHES[0], changed=changed)) == drawn | short


def test_every_topic_of_the_bench_has_a_duration_and_its_metrics():
    tree = ast.parse((ROOT / "bench/__main__.py").read_text())  # an import would load the CDK and every peer
    (table,) = [
        node.value for node in tree.body if isinstance(node, ast.AnnAssign) and node.target.id == "TOPICS"
    ]
    assert list(json.loads(BENCH.read_text())) == list(METRICS) == [key.value for key in table.keys]


def test_a_kept_duration_is_never_zero(tmp_path, monkeypatch):
    """Tests that are drawn for a stage and take nothing cannot be divided by time: pytest-split ends with an IndexError."""
    kept, written = tmp_path / "kept.json", tmp_path / "written.json"
    kept.write_text("{}")
    written.write_text(json.dumps({"tests/a.py::quick": 0.004, "tests/a.py::slow": 1.26}))
    monkeypatch.setattr(tiers, "DURATIONS", kept)
    tiers.keep_durations([str(written)])
    assert json.loads(kept.read_text()) == {"tests/a.py::quick": 0.1, "tests/a.py::slow": 1.3}


def test_every_tracked_duration_is_above_zero():
    durations = json.loads(tiers.DURATIONS.read_text())
    assert [test for test, seconds in durations.items() if seconds <= 0] == []
