"""The table of proofs, in the order in which they run."""

from __future__ import annotations

from typing import Final

from stepline.local.proof.proof_row import Proof
from stepline.local.proof.row import (
    access_rows,
    account_rows,
    approval_rows,
    bill_rows,
    midturn_rows,
    program_rows,
    restore_rows,
    scan_rows,
    stream_rows,
    upgrade_rows,
)
from stepline.local.proof.stage_function import FUNCTION_RIGHTS

PROOFS: Final = (
    Proof(
        name="identity-own",
        claim="The user's own token opens the websocket and the HTTP API.",
        prove=access_rows.prove_own,
        turns=0,
    ),
    Proof(
        name="identity-none",
        claim="A caller without a token is refused by both.",
        prove=access_rows.prove_none,
        turns=0,
    ),
    Proof(
        name="identity-foreign",
        claim="A token that another key signed is refused by both.",
        prove=access_rows.prove_foreign,
        turns=0,
    ),
    Proof(
        name="identity-expired",
        claim="A token of the issuer that has expired is refused by both.",
        prove=access_rows.prove_expired,
        turns=0,
        needs="an issuer whose key this machine has",
    ),
    Proof(
        name="ingress",
        claim="A message is answered, and its events are numbered without a gap, as they are stored.",
        prove=stream_rows.prove_ingress,
    ),
    Proof(
        name="resume",
        claim="A client that is cut in mid-stream gets exactly the rest, running text included.",
        prove=stream_rows.prove_resume,
    ),
    Proof(
        name="same-view",
        claim="Two clients of a conversation get the same events and the same text.",
        prove=stream_rows.prove_same,
    ),
    Proof(
        name="steer",
        claim="A steer interrupts a turn, which ends with an answer within the rounds that it has left.",
        prove=midturn_rows.prove_steer,
    ),
    Proof(
        name="followup",
        claim="A message that arrives in mid-turn is read, and not lost.",
        prove=midturn_rows.prove_followup,
        turns=2,
    ),
    Proof(
        name="stop",
        claim="A stop closes a turn without another round.",
        prove=midturn_rows.prove_stop,
    ),
    Proof(
        name="kill",
        claim="A turn whose execution is stopped is taken over: one answer, and no event is lost.",
        prove=midturn_rows.prove_loss,
        turns=2,
        needs="states:StopExecution",
    ),
    Proof(
        name="upgrade",
        claim="An answer that streams while a release goes live arrives complete and once, and the next turns work.",
        prove=upgrade_rows.prove_upgrade,
        turns=3,
        needs=f"{FUNCTION_RIGHTS}, and {upgrade_rows.NEEDED}",
    ),
    Proof(
        name="program",
        claim="A program runs on the stage's own backend, and its output and its file arrive.",
        prove=program_rows.prove_program,
        needs="programs",
    ),
    Proof(
        name="program-escape",
        claim="A program that tries to leave its jail is refused at each attempt.",
        prove=program_rows.prove_jail,
        needs="programs",
    ),
    Proof(
        name="approval-denied",
        claim="A call that a person denies does not run.",
        prove=approval_rows.prove_denied,
        needs=f"a rule of approvals, and {FUNCTION_RIGHTS}",
    ),
    Proof(
        name="approval-approved",
        claim="A call that a person approves runs once, and not before.",
        prove=approval_rows.prove_approved,
        needs=f"a rule of approvals, and {FUNCTION_RIGHTS}",
    ),
    Proof(
        name="upload",
        claim="An uploaded file is stored, listed and fetched byte for byte, and a refused kind has its code.",
        prove=account_rows.prove_upload,
    ),
    Proof(
        name="upload-scan",
        claim="The scanner refuses the test file of malware by its code, and accepts a clean file.",
        prove=scan_rows.prove_scan,
        turns=0,
        needs=f"a scanner of uploads, and {FUNCTION_RIGHTS}",
    ),
    Proof(
        name="limits",
        claim="A limit refuses the next message by its code, and none after it is removed.",
        prove=account_rows.prove_limits,
        turns=2,
        needs="an admin's token",
    ),
    Proof(
        name="receipts",
        claim="The receipt of a turn adds up: its calls to the turn, the turns to the whole, and the services to their sums.",
        prove=account_rows.prove_receipts,
    ),
    Proof(
        name="bill",
        claim="The account used at least the units that yesterday's receipts name.",
        prove=bill_rows.prove_bill,
        turns=0,
        usd=bill_rows.REQUEST_USD,
        needs=bill_rows.BILL_RIGHT,
    ),
    Proof(
        name="restore",
        claim="An exported conversation is imported with the same turns and files, and continues.",
        prove=restore_rows.prove_restore,
        turns=2,
    ),
    Proof(
        name="recovery",
        claim="The table and the bucket keep what a restore to an earlier time needs.",
        prove=restore_rows.prove_recovery,
        turns=0,
        needs=f"a stage that keeps its data, and {restore_rows.BACKUP_RIGHTS}",
    ),
    Proof(
        name="erasure",
        claim="A deleted conversation is gone from the list and from every read, and takes no message.",
        prove=account_rows.prove_erasure,
    ),
)
