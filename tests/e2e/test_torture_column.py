"""Stepline's column of the torture matrix, live and with short waits: every cell holds."""

from __future__ import annotations

import pytest

from bench.torture.fault import FAULTS
from bench.torture.model_server import ModelServer
from bench.torture.run_matrix import run_cell
from bench.torture.subjects.stepline_subject import close_stage, open_subject
from bench.torture.trial import QUICK

pytestmark = pytest.mark.emulator


@pytest.fixture(scope="module")
def model(deployed):
    """The scripted model of all subjects; the stage's own one answers again after the tests."""
    with ModelServer() as server:
        yield server
        close_stage()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_our_cell_holds(model, fault):
    cell = run_cell(open_subject, fault, QUICK, model)
    assert cell.verdict == "holds", cell.evidence
