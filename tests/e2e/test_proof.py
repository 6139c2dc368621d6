"""`stepline prove` on the local stage: every row that an emulator can run is held, and the report says so."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack

import pytest

from stepline.local.proof.escape_program import ATTEMPTS
from stepline.local.proof.known_drift import DRIFTS
from stepline.local.proof.proof_table import PROOFS
from stepline.local.proof.row.approval_rows import ALWAYS, TOOL
from stepline.local.stage.deployed import install_environment
from tests.contract import clamav_daemon
from tests.e2e.mode import approvals, obstacle, programs_in, scanned_by
from tests.e2e.stage import STEPLINE

pytestmark = pytest.mark.emulator

PROVE_S = 1800
ABSENT = {"bill", "recovery", "task-kill"}
"""Rows for which this machine's stage has no service: no bill, no backups, and no tasks that it could stop."""


@pytest.fixture
def daemon(tmp_path):
    """A scanner, or None where ClamAV is not installed."""
    if clamav_daemon.PROGRAM is None:
        yield None
        return
    (tmp_path / "clamav").mkdir()
    scanner = clamav_daemon.ClamavDaemon(tmp_path / "clamav")
    yield scanner
    scanner.stop()


def test_every_row_is_held_and_reported(computing, daemon, tmp_path):
    absent = ABSENT | (set() if daemon else {"upload-scan"})
    with ExitStack() as chosen:
        chosen.enter_context(approvals(computing, {TOOL: ALWAYS}))
        if daemon:
            chosen.enter_context(scanned_by(computing, daemon))
        done, rows = prove(tmp_path)
    assert [(row["name"], row["verdict"], row["why"]) for row in rows if row["name"] not in absent] == [
        (proof.name, "held", "") for proof in PROOFS if proof.name not in absent
    ]
    assert {row["name"]: row["verdict"] for row in rows if row["name"] in absent} == dict.fromkeys(
        absent, "not run"
    )
    assert done.returncode == 0, done.stderr
    evidence = {row["name"]: row["evidence"] for row in rows}
    assert evidence["program"]["backend"] == "process"
    assert evidence["program-escape"].keys() >= ATTEMPTS.keys()
    report = json.loads((tmp_path / "proof.json").read_text())
    assert (report["stage"], report["models"], report["usd"], report["rows"]) == (
        "local",
        ["scripted"],
        0,
        rows,
    )
    assert report["drift"] == DRIFTS
    assert report["versions"]["functions"].keys() >= {"decide", "act", "close"}
    page = (tmp_path / "proof.html").read_text()
    assert page.count(">held<") == len(PROOFS) - len(absent)


@pytest.mark.parametrize(
    ("mode", "names"),
    [("docker", ("program", "program-escape")), ("fargate", ("program", "program-escape", "task-kill"))],
)
def test_programs_in_containers_are_held(scripted, tmp_path, mode, names):
    if why := obstacle(scripted, mode):
        pytest.skip(why)
    with programs_in(scripted, mode):
        _, rows = prove(tmp_path, *names)
    assert [(row["name"], row["verdict"], row["why"]) for row in rows] == [
        (name, "held", "") for name in names
    ]
    assert rows[0]["evidence"]["backend"] == mode


def prove(folder, *names):
    """Run the command, for all rows or these; return it when it has ended, and the rows that it printed."""
    chosen = [word for name in names for word in ("--row", name)]
    done = subprocess.run(
        [STEPLINE, "prove", *chosen, "--report", folder, "--json"],
        capture_output=True,
        text=True,
        timeout=PROVE_S,
        check=False,
        stdin=subprocess.DEVNULL,
        env=install_environment(),
    )
    return done, [json.loads(line) for line in done.stdout.splitlines()]
