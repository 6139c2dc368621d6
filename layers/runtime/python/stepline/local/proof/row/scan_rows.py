"""The scan of uploads: a file that every scanner knows is refused by its code, and a clean one is accepted."""

from __future__ import annotations

from typing import Final

from stepline.adapters.system import SystemClock
from stepline.local.client.uploader import Uploader
from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.account_rows import code_of
from stepline.local.proof.stage_function import read_setting
from stepline.model.file.file_verdict import MALWARE
from stepline.settings import AV_SCANS

NO_SCANNER: Final = "none"
SIGNATURE: Final = (r"X5O!P%@AP[4\PZX54(P^)7CC)7}$", "EICAR", "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*")
"""The harmless test file of EICAR, in pieces: as one, scanners would refuse this module. Source: eicar.org."""


def prove_scan(stage: ProvedStage, conversation: str) -> Evidence:
    """Upload the scanners' test file, and a clean one."""
    scanner = AV_SCANS.get(read_setting(stage, "preflight", "av_scan"), NO_SCANNER)
    if scanner == NO_SCANNER:
        raise NotRunError("the stage scans no uploads: the choice `av` names a scanner")
    uploader = Uploader(stage.api, SystemClock(), conversation, report=lambda _: None)
    found = {
        "infected": code_of(lambda: uploader.upload("eicar.txt", "".join(SIGNATURE).encode())),
        "clean": code_of(lambda: uploader.upload("clean.txt", f"A note of {conversation}.\n".encode())),
    }
    judge_scan(found["infected"], found["clean"])
    return {"scanner": scanner, **found, "clean": "accepted"}


def judge_scan(infected: str, clean: str) -> None:
    """Require the code of malware for the test file, and none for a clean file."""
    require(
        infected == MALWARE,
        f"the test file is answered with {infected or 'an acceptance'}, and not with {MALWARE}",
    )
    require(not clean, f"a clean file is refused with {clean}")
