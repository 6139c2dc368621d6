"""The scan of uploads: only the code of malware is a refusal of it, and a stage without a scanner proves nothing."""

import pytest

from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.proved_stage import NotRunError
from stepline.local.proof.row.scan_rows import SIGNATURE, judge_scan, prove_scan
from stepline.settings import TABLE
from tests.contract.clamav_daemon import EICAR
from tests.unit.local.proof.test_stage_function import stage


def test_the_pieces_are_the_file_that_scanners_know():
    assert "".join(SIGNATURE).encode() == EICAR


@pytest.mark.parametrize(
    ("infected", "clean"),
    [
        ("", ""),
        ("av_unavailable", ""),
        ("type_not_allowed", ""),
        ("malware", "malware"),
        ("malware", "av_unavailable"),
    ],
)
def test_a_test_file_that_passes_and_a_clean_file_that_does_not_fail(infected, clean):
    judge_scan("malware", "")
    with pytest.raises(NotHeldError):
        judge_scan(infected, clean)


@pytest.mark.parametrize("scanner", ["", "none", "0"])
def test_a_stage_without_a_scanner_proves_nothing(scanner):
    with pytest.raises(NotRunError):
        prove_scan(stage("preflight", **{TABLE["av_scan"].variable: scanner}), "c")
