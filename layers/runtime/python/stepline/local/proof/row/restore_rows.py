"""Restores: a conversation from its export, and what a restore of the stage needs. A restore itself takes hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stepline.adapters.system import SystemClock
from stepline.api.files import LinkRequest
from stepline.local.client.importer import Importer
from stepline.local.imported_documents import ImportedDocuments
from stepline.local.proof.judge_stream import judge_ends
from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.account_rows import WRITE_REQUEST, ask
from stepline.local.proof.row.stream_rows import QUESTION, settle_turn
from stepline.local.user_archive import fetch_file
from stepline.log.importing.import_document import Document
from stepline.timeline.export import TURN_LOG

if TYPE_CHECKING:
    from stepline.timeline.export import Export

BACKUP_RIGHTS: Final = "dynamodb:DescribeContinuousBackups and s3:GetBucketVersioning"
ON: Final = ("ENABLED", "Enabled")


def prove_restore(stage: ProvedStage, conversation: str) -> Evidence:
    """Export a conversation with a file, import it under another name, and continue it there."""
    ask(stage, conversation, WRITE_REQUEST)
    exported = stage.api.export(conversation).documents
    copy = f"{conversation}-copy"
    imported = ImportedDocuments(
        documents=tuple(Document(kind=one.kind, payload=one.payload) for one in exported),
        files={
            row.sha256: partial(_fetch, stage, conversation, row.logical_path)
            for row in stage.api.list_files(conversation).items
        },
    )
    report = Importer(stage.api, SystemClock(), copy, report=lambda _: None).import_documents(imported).report
    blocks = judge_copied(exported, stage.api.export(copy).documents)
    require(report.files_missing == 0, f"{report.files_missing} files are missing in the copy")
    with stage.listen(copy) as client:
        client.session.say(QUESTION)
        settle_turn(client)
    judge_ends(client.ends[-1:])
    return {"copy": copy, "turns": report.turns, "blocks": blocks, "files": report.files}


def _fetch(stage: ProvedStage, conversation: str, path: str) -> bytes:
    return fetch_file(stage.api.create_link(conversation, LinkRequest(path=path)).url)


def judge_copied(before: Iterable[Export], after: Iterable[Export]) -> int:
    """Require that two exports have the same turns, with the same blocks; return the number of blocks.

    The key under which a body is stored names the conversation, so only its hash is compared.
    """
    ours, copied = _turns(before), _turns(after)
    require(bool(ours), "the export has no turn")
    require(list(ours) == list(copied), f"the copy has the turns {list(copied)}, and not {list(ours)}")
    odd = [turn for turn, blocks in ours.items() if blocks != copied[turn]]
    require(not odd, f"the blocks of the turns {odd} are not those of the original")
    return sum(map(len, ours.values()))


def _turns(documents: Iterable[Export]) -> dict[str, list[dict[str, Any]]]:
    return {
        str(one.payload["turn_id"]): [_plain(block) for block in one.payload["blocks"]]
        for one in documents
        if one.kind == TURN_LOG
    }


def _plain(block: Mapping[str, Any]) -> dict[str, Any]:
    body = block.get("body") or {}
    return {**block, "body": {name: value for name, value in body.items() if name != "key"}}


def prove_recovery(stage: ProvedStage, _conversation: str) -> Evidence:
    """Read whether the table and the bucket keep what a restore needs."""
    backups = stage.aws("dynamodb").describe_continuous_backups(TableName=stage.table)
    found = backups["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
    versioning = stage.aws("s3").get_bucket_versioning(Bucket=stage.bucket)
    kept = {
        "table": str(found.get("PointInTimeRecoveryStatus", "DISABLED")),
        "bucket": str(versioning.get("Status", "DISABLED")),
    }
    judge_recovery(kept)
    return {**kept, "since": str(found.get("EarliestRestorableDateTime", ""))}


def judge_recovery(kept: Mapping[str, str]) -> None:
    """Require point-in-time recovery and versioning. Raises NotRunError for a stage that keeps nothing."""
    off = [name for name, status in kept.items() if status not in ON]
    if len(off) == len(kept):
        raise NotRunError("the stage does not keep its data: the choice keep_data=true does")
    require(not off, f"the stage cannot be restored in full: {dict(kept)}")
