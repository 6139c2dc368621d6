"""Documents of the existing system are imported.

`tests/data/import` holds a conversation of two turns as that system stores it: its timeline after a compaction, its pool
of sources, and a log for each turn. They were written from the known formats, not copied from a running system.
"""

from __future__ import annotations

import base64
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from stepline.log.importing.import_document import Document, ImportPlan, read_document
from stepline.log.importing.plan_import import named_files
from stepline.model.entry import Decided, Inbound, Resulted
from stepline.timeline.export import TIMELINE_KIND
from tests.support.exported_log import documents_of, log_of, moved, read_everywhere, told

FOLDER: Final = Path(__file__).parents[4] / "tests/data/import"
FIRST: Final = "turn_2026-02-01-09-00-00-120"
SECOND: Final = "turn_2026-02-01-09-12-30-004"
OURS: Final = frozenset(
    {
        "react.turn.finalize",
        "react.state",
        "react.exit",
        "assistant.completion.attempt.outcome",
        "react.plan.ack",
    }
)
"""Blocks that are there under their paths, in the words of this system."""
FORMED: Final = frozenset({"react.tool.call", "react.plan", "turn.feedback", "user.attachment.meta"})
"""Blocks whose JSON has the same facts in another form."""


def recorded() -> list[Document]:
    return [read_document(path.read_bytes(), path.name) for path in sorted(FOLDER.glob("*.json"))]


@pytest.fixture(scope="module")
def plan() -> ImportPlan:
    return moved(recorded())


def test_turns_title_and_times_are_those_of_the_documents(plan: ImportPlan):
    there = read_everywhere(plan)
    assert (there.turns, there.title) == ((FIRST, SECOND), "Heat pump sales in Europe")
    assert [turn.started_at for turn in there.history] == [
        "2026-02-01T09:00:00.000Z",
        "2026-02-01T09:12:30.000Z",
    ]
    assert there.tail.at == "2026-02-01T09:12:51.000Z"


def test_every_imported_path_resolves_to_its_original_text(plan: ImportPlan):
    there = log_of(plan)
    for document in recorded():
        for block in document.payload.get("blocks", ()):
            path, kind = block["path"], block["type"]
            if not path.startswith(("ar:", "tc:", "fi:", "su:", "ws:")) or kind == "react.round.start":
                continue
            found = there.resolve(path)
            assert found, path
            if block.get("text") and kind not in OURS | FORMED:
                assert block["text"] in [one.text for one in found]


def test_calls_have_their_whole_parameters_and_their_results(plan: ImportPlan):
    entries = [entry for batch in plan.batches for entry in batch.entries]
    calls = {a.call_id: a for e in entries if isinstance(e, Decided) for a in e.actions}
    assert calls["tc_0f1e2d3c4b5a"].params["contract"]["description"] == "a chart of the sales by year"
    assert calls["tc_0f1e2d3c4b5a"].code == "import csv\nprint('drawn')\n"
    status = {e.call_id: e.status for e in entries if isinstance(e, Resulted)}
    assert status == {
        "tc_a1b2c3d4e5f6": "ok",
        "tc_0f1e2d3c4b5a": "ok",
        "tc_9988776655aa": "ok",
        "tc_77aa66bb55cc": "error",
    }


def test_imported_messages_keep_their_ids_and_attributes(plan: ImportPlan):
    events = [e for batch in plan.batches for e in batch.entries if isinstance(e, Inbound)]
    about = [(e.event, e.message_id, e.reactive) for e in events if e.event != "prompt"]
    assert about == [("followup", "mlx3k9q01", True), ("alert", "mlx3k9q02", False)]
    assert [file.filename for e in events for file in e.attachments] == ["logo.png"]


def test_answers_have_their_numbers_their_times_and_their_sources(plan: ImportPlan):
    there = log_of(plan)
    (first,) = there.resolve(f"ar:{SECOND}.assistant.completion.1")
    (last,) = there.resolve(f"ar:{SECOND}.assistant.completion")
    assert (first.text, last.text) == ("They fell a little.", "In Germany they fell by half [[S:2]].")
    assert (first.ts, last.ts) == ("2026-02-01T09:12:34.000Z", "2026-02-01T09:12:46.000Z")
    assert last.meta["sources_used"] == [2]


def test_sources_keep_their_numbers_and_one_that_cannot_be_a_source_is_left_out(plan: ImportPlan):
    assert {sid: row.title for sid, row in log_of(plan).sources.items()} == {
        1: "Market report",
        2: "Statistics",
        3: "logo.png",
    }
    assert plan.report.left_out == {"source": 1}


def test_the_model_reads_the_summary_instead_of_the_first_turn(plan: ImportPlan):
    text = "".join(piece.text for piece in log_of(plan).pieces)
    assert "Goals: sales of heat pumps in Europe. Done: a chart." in text
    assert "[D] Europe only" in text
    assert FIRST in text
    assert "I look for figures." not in text


def test_a_forged_header_in_a_message_stays_text():
    documents = [one for one in recorded() if one.kind != TIMELINE_KIND]
    text = "".join(piece.text for piece in log_of(moved(documents)).pieces)
    assert "  [TOOL RESULT tc_0].result react.read" in text
    assert "\n[TOOL RESULT tc_0]" not in text


def test_the_report_counts_the_fate_of_each_block_kind(plan: ImportPlan):
    report = plan.report
    assert (report.origin, report.turns, report.blocks, report.sources) == ("foreign", 2, 59, 3)
    assert report.changed == {
        "assistant.completion.attempt.outcome": 1,
        "base64": 2,
        "react.exit": 2,
        "react.round.start": 7,
        "react.state": 2,
        "react.turn.finalize": 1,
        "time_spelled": 59,
    }
    assert report.kept["react.workspace.publish"] == 1


def test_bytes_in_a_document_are_named_by_their_hash():
    (file,) = named_files(recorded())
    turn = next(one.payload for one in recorded() if one.payload.get("turn_id") == FIRST)
    block = next(block for block in turn["blocks"] if block.get("base64"))
    assert (file.size_bytes, file.mime) == (len(base64.b64decode(block["base64"])), block["mime"])
    assert moved(recorded(), files={file.sha256: file.size_bytes}).report.files == 1


def test_an_imported_conversation_is_exported_and_imported_again_equal(plan: ImportPlan):
    there = log_of(plan)
    assert told(log_of(moved(documents_of(there)))) == told(there)


def test_a_timeline_alone_is_imported_without_its_summarized_turns():
    timeline = [one for one in recorded() if one.kind == TIMELINE_KIND]
    plan = moved(timeline)
    there = read_everywhere(plan)
    assert there.turns == (SECOND,)
    assert plan.report.left_out["turn_without_blocks"] == 1
    assert there.resolve(f"su:{SECOND}.conv.range.summary")


def test_prefixed_paths_are_read_as_ours():
    documents = [one for one in recorded() if one.kind != TIMELINE_KIND]
    for document in documents:
        for block in document.payload.get("blocks", ()):
            block["path"] = f"conv:{block['path']}" if block["path"] else ""
    assert told(log_of(moved(documents))) == told(
        log_of(moved([o for o in recorded() if o.kind != TIMELINE_KIND]))
    )


def without(kind: str) -> list[Document]:
    """Return the recorded documents without the blocks of a kind."""
    documents = deepcopy(recorded())
    for document in documents:
        blocks: list[Any] = document.payload.get("blocks", [])
        blocks[:] = [block for block in blocks if block["type"] != kind]
    return documents


KINDS: Final = sorted(
    {b["type"] for p in FOLDER.glob("*.json") for b in msgspec.json.decode(p.read_bytes()).get("blocks", ())}
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_is_imported_when_one_kind_of_block_is_missing(kind: str):
    there = read_everywhere(moved(without(kind)))
    assert there.turns == (FIRST, SECOND)
    assert there.current is None


def test_an_unfinished_turn_of_a_document_is_closed():
    documents = recorded()
    blocks = next(one.payload["blocks"] for one in documents if one.payload.get("turn_id") == SECOND)
    del blocks[6:]
    plan = moved([one for one in documents if one.kind != TIMELINE_KIND])
    assert plan.report.changed["imported_open"] == 1
    assert log_of(plan).history[-1].outcome == "error"


def test_a_completion_without_its_attempt_is_kept_as_one():
    plan = moved(without("assistant.completion.attempt"))
    there = log_of(plan)
    assert [b.text for b in there.turn_blocks(SECOND) if b.type == "assistant.completion"] == [
        "They fell a little.",
        "In Germany they fell by half [[S:2]].",
    ]
