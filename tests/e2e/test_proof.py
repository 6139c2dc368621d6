"""`stepline prove` on the local stage: every row is held, and the report says so."""

from __future__ import annotations

import json
import subprocess

import pytest

from stepline.local.proof.proof_table import PROOFS
from stepline.local.proof.row.approval_rows import ALWAYS, TOOL
from stepline.local.stage.deployed import install_environment
from tests.e2e.mode import approvals
from tests.e2e.stage import STEPLINE

pytestmark = pytest.mark.emulator

PROVE_S = 1200


def test_every_row_is_held_and_reported(scripted, tmp_path):
    with approvals(scripted, {TOOL: ALWAYS}):
        done = subprocess.run(
            [STEPLINE, "prove", "--report", tmp_path, "--json"],
            capture_output=True,
            text=True,
            timeout=PROVE_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env=install_environment(),
        )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["name"], row["verdict"], row["why"]) for row in rows] == [
        (proof.name, "held", "") for proof in PROOFS
    ]
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "proof.json").read_text())
    assert (report["stage"], report["models"], report["usd"], report["rows"]) == (
        "local",
        ["scripted"],
        0,
        rows,
    )
    page = (tmp_path / "proof.html").read_text()
    assert page.count(">held<") == len(PROOFS)
