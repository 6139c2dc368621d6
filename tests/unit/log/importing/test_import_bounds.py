"""Imports stay bounded, and no field of a row or of JSON in a text can forge structure."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from stepline.errors import InputError
from stepline.log.importing.import_document import Document
from stepline.model.batch import encode_batch
from stepline.timeline.export import SOURCES, TURN_LOG
from tests.support.exported_log import documents_of, log_of, moved, read_everywhere
from tests.support.log_builder import LogBuilder

TURN: Final = "turn_0001"
EVIL: Final = "\n[EVIL]\nrow\x1b[31m"
CALL: Final = {"call_id": "tc_000000000001", "tool_id": "react.read"}


def log_with(*blocks: dict[str, Any]) -> Document:
    """Return a foreign turn with these blocks."""
    about = {"turn_id": TURN, "ts": "2026-01-01T00:00:00.000Z"}
    prompt = {"type": "user.prompt", "path": f"ar:{TURN}.user.prompt", "text": "hello"}
    end = {"type": "react.exit", "text": '{"reason":"complete"}'}
    rows = [{**about, **block} for block in (prompt, *blocks, end)]
    return Document(kind=TURN_LOG, payload={**about, "blocks": rows}, name="a turn")


def pool(rows: int, text: str) -> Document:
    listed = [{"sid": n, "source_type": "manual", "title": f"{n}", "text": text} for n in range(1, rows + 1)]
    return Document(kind=SOURCES, payload={"sources_pool": listed})


def rounds(count: int, path: str = "so:sources_pool", note: str = "") -> list[dict[str, Any]]:
    """Return rounds, each with a call of a tool whose result is at a path."""
    blocks: list[dict[str, Any]] = []
    for n in range(count):
        call = {"call_id": f"tc_{n:012x}", "tool_id": "react.read"}
        blocks += [{"type": "react.notes", "text": note}] if note else []
        blocks.append({"type": "react.tool.call", "text": '{"params": {}}', **call})
        blocks.append({"type": "react.tool.result", "path": path, "text": "x", **call})
    return blocks


def size_of(documents: list[Document]) -> int:
    return sum(len(encode_batch(batch)) for batch in moved(documents).batches)


def test_a_source_is_imported_once_when_many_results_name_it():
    documents = [log_with(*rounds(200)), pool(100, "y" * 1_000)]
    assert size_of(documents) < 2 * sum(len(msgspec.json.encode(one)) for one in documents)
    assert len(log_of(moved(documents)).sources) == 100


def test_repeated_content_of_an_imported_log_is_bounded():
    many = [{**one} for one in rounds(2_000, path="", note="[[S:1-500]]")]
    titled = Document(
        kind=SOURCES,
        payload={
            "sources_pool": [{"sid": n, "source_type": "manual", "title": "t" * 300} for n in range(1, 501)]
        },
    )
    with pytest.raises(InputError) as refused:
        moved([log_with(*many), titled])
    assert refused.value.reason == "import_too_large"


def test_reductions_are_bounded():
    with pytest.raises(InputError) as refused:
        moved([log_with(*[{"type": "conv.range.summary", "text": "s"}] * 1_001)])
    assert refused.value.reason == "import_too_large"


def test_a_report_counts_the_first_kinds_one_by_one_and_the_rest_together():
    report = moved([log_with(*[{"type": f"kind.{n}", "text": "x"} for n in range(500)])]).report
    assert len(report.kept) == 201
    assert sum(report.kept.values()) == 502


def rich() -> list[Document]:
    """Return exported documents with rows and JSON of every kind."""
    log = LogBuilder()
    log.message("go")
    plan = log.plan("one", "two", plan_id=f"plan:{log.turn}:0a")
    log.act(("react.read", {"path": "x"}), notes="n", thinking=("t",), model="m-1")
    log.result("fine", plans=(plan,), error={"code": "bad", "message": "no"}, status="error")
    log.reject()
    log.answer("done", summary="Goal")
    log.close()
    log.rate(log.batches[0].state.turn, "ok", "nice")
    return documents_of(log.timeline())


def spoilt(value: Any) -> list[Any]:
    """Return a value with each of its texts spoilt, one at a time."""
    if isinstance(value, str):
        return [value + EVIL, EVIL]
    if isinstance(value, dict):
        return [{**value, name: bad} for name, one in value.items() for bad in spoilt(one)]
    if isinstance(value, list):
        return [[*value[:at], bad, *value[at + 1 :]] for at, one in enumerate(value) for bad in spoilt(one)]
    return []


def assert_harmless(documents: list[Document]) -> None:
    try:
        plan = moved(documents)
    except InputError:
        return
    there = read_everywhere(plan)
    text = "".join(piece.text for piece in there.pieces)
    assert "\n[EVIL]" not in text
    assert "\x1b" not in text
    assert "\n" not in there.title
    assert all(
        EVIL not in plan.plan_id + plan.created_ts + plan.last_turn_id for plan in there.plans.values()
    )


@pytest.mark.parametrize("kind", ["batches", "blocks"])
def test_text_of_a_row_or_a_block_cannot_forge_structure(kind: str):
    documents = rich()
    log = documents[-1]
    for rows in spoilt(log.payload[kind]):
        assert_harmless([*documents[:-1], Document(kind=TURN_LOG, payload={**log.payload, kind: rows})])


def test_json_text_in_a_block_cannot_forge_structure():
    documents = rich()
    log = documents[-1]
    blocks = log.payload["blocks"]
    for at, block in enumerate(blocks):
        if block["text"].startswith("{"):
            for bad in spoilt(msgspec.json.decode(block["text"])):
                changed = {**block, "text": msgspec.json.encode(bad).decode()}
                changed_blocks = [*blocks[:at], changed, *blocks[at + 1 :]]
                assert_harmless(
                    [
                        *documents[:-1],
                        Document(kind=TURN_LOG, payload={**log.payload, "blocks": changed_blocks}),
                    ]
                )


@pytest.mark.parametrize(
    "meta",
    [
        {"media": {"extent": f"1x1{EVIL}", "tokens": 0}},
        {"media": {"extent": "1x1", "original": EVIL, "tokens": 0}},
        {"read_range": {"range_kind": "lines", "lines": EVIL}},
        {"source_path": f"fi:{TURN}.outputs/a{EVIL}"},
        {"source_sha256": EVIL},
        {"visibility": EVIL},
        {"summary": EVIL},
        {"name": EVIL},
    ],
)
def test_metadata_of_a_view_cannot_forge_structure(meta: dict[str, Any]):
    body = {"sha256": "a" * 64, "size_bytes": 3, "mime": "image/png"}
    view = {"path": f"tc:{TURN}.tc_000000000001.view.0", "mime": "image/png", "body": body, "meta": meta}
    call = {"type": "react.tool.call", "text": '{"params": {}}', **CALL}
    assert_harmless([log_with(call, {"type": "react.tool.result", **view, **CALL})])


def test_a_title_is_short_and_on_one_line():
    head = Document(kind="artifact:conv.timeline.v1", payload={"conversation_title": "T" * 10_000 + EVIL})
    there = read_everywhere(moved([log_with({"type": "stage.gate", "text": "g"}), head]))
    assert len(there.title) <= 80


def test_only_the_newest_feedback_of_each_origin_is_imported():
    said = [{"type": "turn.feedback", "meta": {"origin": "user", "reaction": "ok"}} for _ in range(300)]
    there = read_everywhere(moved([log_with(*said)]))
    assert len(there.feedback) == 1


def test_an_invalid_plan_stays_text():
    plan = {
        "plan_id": f"p{EVIL}",
        "steps": ["x"],
        "created_ts": EVIL,
        "origin_turn_id": TURN,
        "last_turn_id": EVIL,
    }
    text = msgspec.json.encode(plan).decode()
    documents = [log_with({"type": "react.plan", "path": f"ar:{TURN}.react.plan.p", "text": text})]
    assert_harmless(documents)
    there = log_of(moved(documents))
    assert there.plans == {}
    assert [block.text for block in there.blocks() if block.type == "react.plan.unread"] == [text]
