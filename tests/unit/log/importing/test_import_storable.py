"""Every batch of an import can be stored, and wrong times and file sizes of its documents are corrected first."""

from __future__ import annotations

from typing import Any, Final

import pytest

from stepline.log.importing.import_document import Document
from stepline.model.batch import feedback_rows
from stepline.model.entry import Feedback, Inbound
from stepline.model.file.attachment import Attachment
from stepline.timeline.export import TURN_LOG
from tests.support.exported_log import THERE, documents_of, moved, read_everywhere
from tests.support.log_builder import LogBuilder
from tests.unit.log.importing.test_import_hostile import TURN, change, code_of, foreign

FORGED: Final = "x\n[FORGED]\nheader"
SHA: Final = "a" * 64


def rated(turn: str, *origins: str) -> Document:
    """Return the log of a turn with feedback of these origins, one after the other."""
    (document,) = foreign()
    blocks = [
        {**block, "turn_id": turn, "path": block["path"].replace(TURN, turn)}
        for block in document.payload["blocks"]
    ]
    said = [
        {"type": "turn.feedback", "text": f"number {at}", "meta": {"origin": origin}}
        for at, origin in enumerate(origins)
    ]
    return Document(kind=TURN_LOG, payload={"turn_id": turn, "blocks": [*blocks, *said]})


def feedback(documents: list[Document]) -> list[Feedback]:
    return [
        entry for batch in moved(documents).batches for entry in batch.entries if isinstance(entry, Feedback)
    ]


def test_feedback_of_an_imported_batch_fits_into_one_transaction():
    documents = [rated(f"turn_{at:03}", "user", "machine") for at in range(120)]
    assert len(feedback(documents)) == 240
    assert max(len(feedback_rows(THERE, batch)) for batch in moved(documents).batches) == 2


def test_turns_that_end_in_one_batch_cannot_exceed_its_feedback_limit():
    documents = [rated(f"turn_{at:03}", "user", "machine") for at in range(30)]
    for at, document in enumerate(documents):
        entries = [{"kind": "opened"}, {"kind": "closed", "blocks": 1}]
        document.payload["batches"] = [{"n": 1, "at": "", "entries": entries}]
        document.payload["blocks"] = document.payload["blocks"][1:]
        document.payload["ts"] = f"2026-01-01T00:00:{at:02}.000Z"
    assert code_of(documents) == "import_bad_rows"


def test_more_than_a_batch_can_hold_is_refused_before_anything_is_written():
    def crowd(log: dict[str, Any]) -> None:
        log["batches"][1]["entries"][:0] = [{"kind": "takeover"}] * 5_000

    assert code_of(change(crowd)) == "import_too_large"


@pytest.mark.parametrize("at", ["", "yesterday", f"2026-01-01T00:00:00.000Z{FORGED}", "9" * 300])
def test_an_invalid_batch_time_is_replaced(at: str):
    def undate(log: dict[str, Any]) -> None:
        log["batches"][1]["at"] = at

    plan = moved(change(undate))
    assert read_everywhere(plan).current is None
    assert at not in {batch.at for batch in plan.batches}


def test_an_imported_file_has_the_size_of_its_stored_bytes():
    body = {"sha256": SHA, "size_bytes": 1, "mime": "text/plain"}
    document = foreign({"type": "some.kind", "path": f"fi:{TURN}.outputs/a.md", "body": body})
    (block,) = [one for one in read_everywhere(moved(document, files={SHA: 3_000})).blocks() if one.body]
    assert block.body is not None
    assert block.body.size_bytes == 3_000


def test_an_imported_attachment_has_the_size_of_its_stored_bytes():
    log = LogBuilder()
    file = Attachment(filename="a.txt", mime="text/plain", size_bytes=1, sha256=SHA)
    log.message("hello", attachments=(file,))
    log.answer("done")
    log.close()
    documents = documents_of(log.timeline())
    plan = moved(documents, files={SHA: 3_000})
    (event,) = [one for batch in plan.batches for one in batch.entries if isinstance(one, Inbound)]
    assert [file.size_bytes for file in event.attachments] == [3_000]
