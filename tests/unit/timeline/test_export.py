"""A conversation as documents."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from stepline.errors import NotFoundError
from stepline.model.block import Block
from stepline.model.entry import Feedback
from stepline.model.source import Citation, Source
from stepline.timeline.export import (
    SOURCES,
    TIMELINE_KIND,
    TURN_LOG,
    export_conversation,
    export_sources,
    export_timeline,
    export_turn,
)
from tests.support.log_builder import LogBuilder, logs, patient

PAGE = Source(
    sid=1, title="A page", url="https://a.example/x", text="t" * 900, favicon_url="https://a.example/f.png"
)


def talk() -> LogBuilder:
    builder = LogBuilder()
    builder.message("find a page")
    builder.act(("web_tools.web_search", {"queries": ["x"]}))
    builder.result("1 hit", tool="web_tools.web_search", sources=(PAGE,))
    cited = (Citation(sid=1, title="A page", url="https://a.example/x"),)
    builder.answer("There is one [[S:1]].", summary="Goal: a page", citations=cited)
    builder.close()
    builder.message("and now?")
    return builder


@patient
@given(logs(forgetting=True))
def test_exported_documents_of_any_conversation_are_json(builder: LogBuilder):
    timeline = builder.timeline()
    documents = list(export_conversation(timeline, ttl_s=300))
    assert [one.kind for one in documents] == [TIMELINE_KIND, SOURCES, *[TURN_LOG] * len(timeline.turns)]
    for one in documents:
        assert msgspec.json.decode(msgspec.json.encode(one.payload)) is not None
        assert isinstance(msgspec.json.decode(one.text), dict)


@patient
@given(logs(forgetting=True))
def test_exported_turns_hold_all_blocks_and_the_timeline_those_after_its_summary(
    builder: LogBuilder,
):
    timeline = builder.timeline()
    logs = [export_turn(timeline, turn).payload for turn in timeline.turns]
    exported = [msgspec.convert(block, Block) for log in logs for block in log["blocks"]]
    assert exported == list(timeline.blocks())
    shown = [msgspec.convert(block, Block) for block in export_timeline(timeline, ttl_s=1).payload["blocks"]]
    summaries = [block for block in shown if block.type == "conv.range.summary"]
    rest = [block for block in shown if block.type != "conv.range.summary"]
    visible = [block for block in exported if block.type != "conv.range.summary"]
    assert rest == visible[len(visible) - len(rest) :]
    assert (shown[: len(summaries)] == summaries) is True
    assert bool(summaries) == any(block.type == "conv.range.summary" for block in exported)


def test_the_timeline_document_has_the_state_of_the_conversation():
    builder = talk()
    document = export_timeline(builder.timeline(), ttl_s=300)
    payload, batches = document.payload, builder.batches
    assert document.tags == (TIMELINE_KIND, "turn:turn_0001", "turn:turn_0006")
    assert {name: payload[name] for name in payload if name not in ("blocks", "sources_pool")} == {
        "version": 1,
        "ts": batches[-1].at,
        "turn_ids": ["turn_0001", "turn_0006"],
        "conversation_title": "find a page",
        "conversation_started_at": batches[0].at,
        "last_activity_at": batches[-1].at,
        "last_external_event_id": "m2",
        "last_external_event_seq": 6,
        "last_rendered_event_cursor": {
            "timestamp": batches[5].at,
            "event_id": "m2",
            "block_path": "ar:turn_0006.user.prompt",
            "block_index": len(payload["blocks"]) - 2,  # the round has begun after the prompt
            "sequence": 6,
            "fingerprint": payload["last_rendered_event_cursor"]["fingerprint"],
        },
        "cache_last_touch_at": batches[3].at,
        "cache_last_ttl_seconds": 300,
        "last_known_feedback_ts": "",
        "agent_selection_snapshot": {"model": ""},
        "forked_from": None,
        "last_sequence": 6,
        "outside": [],
    }
    assert payload["sources_pool"] == [msgspec.structs.asdict(PAGE)]
    assert msgspec.json.decode(document.text) == {
        "title": "find a page",
        "started_at": batches[0].at,
        "last_activity_at": batches[-1].at,
        "blocks_count": len(payload["blocks"]),
        "sources_count": 1,
        "turn_ids": ["turn_0001", "turn_0006"],
        "sources": [
            {
                "sid": 1,
                "title": "A page",
                "url": "https://a.example/x",
                "text": "t" * 500,
                "favicon": "https://a.example/f.png",
            }
        ],
    }


def test_summarized_turns_are_left_out_of_the_timeline_document():
    builder = talk()
    builder.compact(cut=6, summary="They found a page.")
    payload = export_timeline(builder.timeline(), ttl_s=300).payload
    assert [block["text"] for block in payload["blocks"] if block["type"] == "conv.range.summary"] == [
        "They found a page."
    ]
    assert {block["turn_id"] for block in payload["blocks"]} == {"turn_0006"}
    assert payload["turn_ids"] == ["turn_0001", "turn_0006"]


def test_a_turn_log_lists_its_sources_and_sizes():
    builder = talk()
    said = Feedback(turn="turn_0001", at=builder.at, reaction="ok")
    builder.put(builder.state, said)
    document = export_turn(builder.timeline(), "turn_0001")
    payload = document.payload
    assert document.tags == (TURN_LOG, "kind:turn.log", "turn:turn_0001")
    assert (payload["ts"], payload["end_ts"]) == (builder.batches[0].at, builder.batches[4].at)
    assert (payload["sources_used"], payload["blocks_count"]) == ([1], len(payload["blocks"]))
    assert payload["tokens"] > 10
    header = msgspec.json.decode(document.text)
    assert header.pop("feedback") == [{"origin": "user", "reaction": "ok", "ts": said.at}]
    assert header == {name: value for name, value in payload.items() if name not in ("blocks", "batches")}
    assert export_turn(builder.timeline(), "turn_0006").payload["end_ts"] == ""


def test_a_turn_log_has_the_batches_of_its_blocks():
    builder = talk()
    payload = export_turn(builder.timeline(), "turn_0001").payload
    rows = payload["batches"]
    assert [row["n"] for row in rows] == [1, 2, 3, 4, 5]
    kinds = [[entry["kind"] for entry in row.get("entries", ())] for row in rows]
    assert kinds == [["opened"], ["decision"], ["result"], ["decision"], ["closed"]]
    counted = sum(entry.get("blocks", 0) for row in rows for entry in row["entries"])
    assert counted + sum(row.get("begins", False) for row in rows) == payload["blocks_count"]
    assert rows[2]["entries"][0]["sources"] == (1,)
    assert rows[3]["entries"][0]["citations"] == (1,)


def test_an_event_outside_of_every_turn_is_exported_with_the_conversation():
    builder = talk()
    builder.answer("done")
    builder.close()
    builder.message("late", event="steer")
    builder.message("for later", event="alert", reactive=False)
    payload = export_timeline(builder.timeline(), ttl_s=1).payload
    outside = [(row["text"], row.get("handed_back", "")) for row in payload["outside"]]
    assert outside == [("late", "nothing_to_steer"), ("for later", "")]
    assert payload["last_sequence"] == len(builder.batches)


def test_the_sources_pool_is_a_separate_document():
    document = export_sources(talk().timeline())
    assert document.payload == {"sources_pool": [msgspec.structs.asdict(PAGE)]}
    (row,) = msgspec.json.decode(document.text)["sources"]
    assert (row["sid"], row["title"], row["text"]) == (PAGE.sid, PAGE.title, "t" * 500)


# A row lost `source_type` where that was `web`, and a body its type where that was Markdown.
def test_a_document_names_the_fields_that_have_their_default():
    builder = LogBuilder()
    builder.message("write")
    builder.act(("react.write", {"path": "a.md", "content": "x"}))
    builder.result(tool="react.write", blocks=(builder.file("a.md"),), sources=(PAGE,))
    timeline = builder.timeline()
    (row,) = export_sources(timeline).payload["sources_pool"]
    assert (row["source_type"], row["objective_relevance"]) == ("web", None)
    assert export_timeline(timeline, ttl_s=1).payload["sources_pool"] == [row]
    blocks = export_turn(timeline, builder.turn).payload["blocks"]
    assert [block["mime"] for block in blocks if block["type"] == "user.prompt"] == ["text/markdown"]
    assert [block["body"]["mime"] for block in blocks if block["body"]] == ["text/markdown"]


def test_a_turn_uses_the_sources_that_its_files_cite_too():
    builder = LogBuilder()
    builder.message("write")
    builder.act(("react.write", {"path": "a.md", "content": "x [[S:7]]"}))
    stored = builder.block(f"fi:{builder.turn}.outputs/a.md", "x", meta={"sources_used": [7]})
    odd = builder.block(f"tc:{builder.turn}.x.result", "x", meta={"sources_used": "none"})
    builder.result(tool="react.write", blocks=(stored, odd), sources=(PAGE,))
    assert export_turn(builder.timeline(), builder.turn).payload["sources_used"] == [1, 7]


def test_a_missing_turn_has_no_log():
    with pytest.raises(NotFoundError) as caught:
        export_turn(talk().timeline(), "turn_0009")
    assert caught.value.reason == "turn_not_found"


def test_an_empty_conversation_is_an_empty_document():
    payload = export_timeline(LogBuilder().timeline(), ttl_s=300).payload
    assert (payload["blocks"], payload["last_rendered_event_cursor"]) == ([], None)
