"""Sources: from a tool's result, or a program's, into the log, the pool and the next request."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import msgspec
import pytest

from stepline.adapters.memory.log import MemoryLog
from stepline.log.spill import hydrate
from stepline.model.batch import BATCH_MAX_BYTES, encode_batch
from stepline.model.entry import Closed, Decided, Resulted
from stepline.model.program.execution import CollectedFile, Run, ToolEvent
from stepline.model.source import Citation, Source
from stepline.model.wire.event import DeltaFrame, EventFrame
from stepline.tools.context import ToolOutput
from stepline.tools.registry import Registry
from tests.support.conversation import LANE, Conversation, of, tool
from tests.support.generation import answered, called, coded

SEARCH = {"queries": "prompt caching", "n": 2}


def page(name: str, **fields: object) -> Source:
    return Source(**{"title": name, "url": f"https://e.example/{name}", **fields})


def last_part(conversation: Conversation, request: int) -> str:
    return "".join(part.text for part in conversation.model.requests[request].content[-2:])


def test_search_results_are_in_the_log_and_in_the_next_request():
    conversation = Conversation(called("web_tools.web_search", SEARCH), answered("A tenth [[S:1]]."))
    conversation.send()
    conversation.run()
    (result,) = conversation.entries(Resulted)
    assert [row.sid for row in result.sources] == [1, 2]
    assert result.sources[0].title == "Prompt caching of language models"
    assert result.sources[0].turn_id
    assert "[SOURCES POOL]" not in last_part(conversation, 0)
    assert "[SOURCES POOL] 2 sources\n" in last_part(conversation, 1)
    assert conversation.timeline().sources == {row.sid: row for row in result.sources}


def test_an_answer_lists_its_citations_and_keeps_its_tokens():
    conversation = Conversation(called("web_tools.web_search", SEARCH), answered("A tenth [[S:1,9]]."))
    conversation.send()
    conversation.run()
    decision = conversation.entries(Decided)[-1]
    assert decision.answer == "A tenth [[S:1,9]]."
    assert decision.citations == (
        Citation(
            sid=1, title="Prompt caching of language models", url="https://example.com/library/prompt-caching"
        ),
    )
    assert list(conversation.timeline().cited) == [1]


@pytest.mark.parametrize(
    "answer", ["So [[S:9]].", "So [[S:1]] [[S:9]].", "[[S:8-9]]", "So [[S:1 2]].", "`[[S:9]]` is text"]
)
@pytest.mark.parametrize("search", [True, False], ids=["pool", "no pool"])
def test_the_streamed_answer_equals_the_recorded_one(answer: str, search: bool):
    searched = [called("web_tools.web_search", SEARCH)] if search else []
    conversation = Conversation(*searched, answered(answer))
    conversation.send()
    inbox = conversation.listen()
    conversation.run()
    streamed = "".join(delta.text for delta in of(DeltaFrame, inbox) if delta.lane.startswith("answer."))
    assert conversation.entries(Closed)[0].answer == answer
    assert (streamed == answer) == (not search or answer.startswith("`"))
    events = [
        event for frame in of(EventFrame, inbox) for event in frame.events if event.type == "chat.complete"
    ]
    assert events[0].data["final_answer"] == streamed


def test_a_citation_of_a_hundred_long_addresses_is_streamed_whole():
    conversation = Conversation(called("test.find"), answered("So [[S:1-100]]."))
    rows = [page(f"{n}?{'x' * 2_000}") for n in range(100)]

    def find(context):
        return ToolOutput(blocks=(context.result("test.find", "found"),), sources=context.cite(rows))

    conversation.use(tool("test.find", "pure", find))
    conversation.send()
    inbox = conversation.listen()
    conversation.run()
    streamed = "".join(delta.text for delta in of(DeltaFrame, inbox) if delta.lane.startswith("answer."))
    assert conversation.entries(Closed)[0].answer == "So [[S:1-100]]."
    assert all(row.url in streamed for row in rows)


def test_a_citation_that_cannot_be_read_is_a_notice_for_the_model():
    for answer, codes in (("So [[S:1 2]].", ["citation_unreadable"]), ("So [[S:1; 9]].", [])):
        conversation = Conversation(called("web_tools.web_search", SEARCH), answered(answer))
        conversation.send()
        conversation.run()
        assert [notice.code for notice in conversation.entries(Decided)[-1].notices] == codes


def test_an_end_keeps_the_sources_that_its_answer_cites_and_no_others():
    conversation = Conversation(
        called("web_tools.web_search", {"queries": ["prompt caching", "bm25", "lambda"], "n": 3}),
        answered("It is [[S:2-100000]], and not `[[S:1]]`.", notes="✓ [1] found [[S:1,8]]"),
    )
    conversation.send()
    conversation.run()
    decision, closing = conversation.entries(Decided)[-1], conversation.entries(Closed)[0]
    assert [source.sid for source in decision.citations] == [1, 2, 3]
    assert decision.unresolved == (8, 100_000)
    assert [source.sid for source in closing.citations] == [2, 3]
    assert closing.unresolved == (100_000,)


def test_a_source_of_an_earlier_turn_keeps_its_number_without_an_event():
    again = called("web_tools.web_search", {"queries": ["bm25", "prompt caching"], "n": 2})
    conversation = Conversation(
        called("web_tools.web_search", SEARCH), answered("one"), again, answered("two")
    )
    conversation.send()
    conversation.run()
    conversation.send("more", id="m2")
    conversation.run()
    first, second = conversation.entries(Resulted)
    assert [row.sid for row in first.sources] == [1, 2]
    assert [row.title for row in second.sources if row.sid > 2] == ["BM25: ranking by words"]
    assert 1 not in [row.sid for row in second.sources]


def test_rows_with_long_texts_make_a_small_batch():
    conversation = Conversation(called("test.find"), answered("found"))
    rows = [page(f"p{i}", text="t" * 2_000, content=f"{i} " * 20_000) for i in range(60)]

    def find(context):
        cited = context.cite(rows)
        return ToolOutput(blocks=(context.result("test.find", "found"),), sources=cited)

    conversation.use(tool("test.find", "pure", find))
    conversation.send()
    conversation.run()
    stored = MemoryLog.since(conversation.log, LANE, 0)
    assert max(len(encode_batch(batch)) for batch in stored) <= BATCH_MAX_BYTES
    (batch,) = [batch for batch in stored if any(isinstance(entry, Resulted) for entry in batch.entries)]
    (result,) = hydrate(conversation.ports.artifacts, batch).entries
    assert [row.content for row in result.sources] == [row.content for row in rows]


def test_a_program_brings_the_sources_of_its_tools_and_its_images():
    def run(job):
        files = []
        for promised in job.request.contract:
            body = PNG if promised.filename.endswith(".png") else b"a,b\n"
            sha256 = hashlib.sha256(body).hexdigest()
            (job.spool / sha256).write_bytes(body)
            files.append(CollectedFile(path=promised.filename, sha256=sha256, size_bytes=len(body)))
        event = ToolEvent(type="web_search.filtered_results", at="", tool_id="web_tools.web_search", data={})
        sources = (page("known", sid=1, text="more of it than before"), page("new", sid=3))
        return Run(returncode=0, files=tuple(files), events=(event,), sources=sources)

    def find(context):
        return ToolOutput(sources=context.cite([page("known"), page("other")]))

    conversation = Conversation(
        called("test.find"), coded("pass", "chart.png", "table.csv"), answered("done [[S:4]]")
    )
    conversation.programs(run)
    own = [conversation.agent.registry.find(spec.tool_id) for spec in conversation.agent.registry.specs]
    conversation.agent = replace(
        conversation.agent, registry=Registry([*own, tool("test.find", "pure", find)])
    )
    conversation.send()
    conversation.run()
    rows = conversation.entries(Resulted)[1].sources
    assert [(row.sid, row.title) for row in rows] == [(1, "known"), (3, "new"), (4, "chart.png")]
    image = rows[2]
    assert (image.source_type, image.mime, image.size_bytes) == ("file", "image/png", len(PNG))
    assert image.path.endswith(".outputs/chart.png")
    assert image.text == "what chart.png holds"
    assert sorted(conversation.timeline().sources) == [1, 2, 3, 4]


def test_a_row_survives_the_wire_unchanged():
    row = page("a", sid=3, query_relevance=0.25, favicon_url="https://e.example/i.png")
    assert msgspec.json.decode(msgspec.json.encode(row), type=Source) == row


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)
