"""A request in parts and pieces: sizes, marks, cache use, reductions, and the difference between two requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from stepline.adapters.memory.model import Say
from stepline.inspection.request_diff import RequestDiff, diff_requests
from stepline.inspection.request_view import (
    RequestView,
    classify_parts,
    conceal_system,
    pieces_of,
    read_request,
    trace,
)
from stepline.log.journal import Journal
from stepline.model.entry import Decided
from stepline.model.usage import Usage
from stepline.ports.model import Part
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolOutput
from tests.support.budget import budget
from tests.support.conversation import LANE, Conversation, tool
from tests.support.generation import answered, called
from tests.support.log_builder import LogBuilder, logs
from tests.support.small_context import SmallContext, prose

LOOK_UP = "test.look_up"
WORDS = "word " * 200


def views(conversation: Conversation) -> list[RequestView]:
    """Return the request of each round."""
    journal = Journal(conversation.ports, LANE, "test")
    return [
        read_request(journal, batch.n)
        for batch in conversation.batches()
        if any(isinstance(entry, Decided) for entry in batch.entries)
    ]


def talked(*script: Say | str, **policy: Any) -> Conversation:
    """Return a conversation of one turn, whose tool returns a thousand letters."""
    conversation = Conversation(*script, **policy)
    conversation.use(
        tool(LOOK_UP, "pure", lambda context: ToolOutput(blocks=(context.result(LOOK_UP, WORDS),)))
    )
    conversation.send("look it up")
    conversation.run()
    return conversation


def text_of(view: RequestView, role: str = "") -> str:
    return "".join(piece.text for part in view.parts if role in ("", part.role) for piece in part.pieces)


def test_the_pieces_of_a_request_add_up_to_its_text() -> None:
    conversation = talked(called(LOOK_UP), answered("Done."))
    for view, asked in zip(views(conversation), conversation.model.requests, strict=True):
        parts = [part for part in (*asked.system, *asked.content) if isinstance(part, Part)]
        assert ["".join(piece.text for piece in part.pieces) for part in view.parts] == [
            part.text for part in parts
        ]
        assert [part.mark for part in view.parts] == [part.cache for part in parts]
        assert [part.size_bytes for part in view.parts] == [len(part.text.encode()) for part in parts]
        assert view.equal


def test_each_piece_names_its_turn_round_and_path() -> None:
    conversation = talked(called(LOOK_UP), answered("Done."))
    view = views(conversation)[1]
    assert [part.role for part in view.parts] == ["system", "timeline", "timeline", "announce"]
    prompt, result = (
        next(piece for piece in pieces_of(view) if piece.kind == kind) for kind in ("prompt", "result")
    )
    (turn,) = conversation.timeline().turns
    assert (prompt.turn, prompt.round, prompt.path) == (turn, 0, f"ar:{turn}.user.prompt")
    assert (result.n, result.round) == (3, 1)
    assert result.reduced is None
    assert view.max_tokens == 80_000


def test_the_system_part_is_hidden_without_permission() -> None:
    conversation = talked(answered("Done."))
    (view,) = views(conversation)
    hidden = conceal_system(view)
    assert text_of(hidden, "system") == ""
    assert text_of(hidden, "timeline") == text_of(view, "timeline") != ""
    assert [part.tokens for part in hidden.parts] == [part.tokens for part in view.parts]
    assert hidden.parts[0].pieces[0].hidden


PARTS = (
    Part(text="a" * 320, cache=True),
    Part(text="b" * 320, cache=True),
    Part(text="c" * 640),
    Part(text="d" * 320, cache=True),
    Part(text="e" * 32),
)


@pytest.mark.parametrize(
    ("usage", "classes"),
    [
        (Usage(), "ppppp"),
        (Usage(input_tokens=510), "ppppp"),
        (Usage(cache_write_5m_tokens=500, input_tokens=10), "wwwwp"),
        (Usage(cache_read_tokens=110, cache_write_1h_tokens=410, input_tokens=10), "rwwwp"),
        (Usage(cache_read_tokens=190, cache_write_5m_tokens=300, input_tokens=10), "rrwwp"),
        (Usage(cache_read_tokens=500, input_tokens=10), "rrrrp"),
    ],
)
def test_the_cache_was_read_up_to_the_mark_closest_to_the_providers_count(usage: Usage, classes: str) -> None:
    assert "".join(kind[0] for kind in classify_parts(PARTS, usage)) == classes


def test_a_hidden_result_has_its_reason_and_former_size() -> None:
    conversation = talked(called(LOOK_UP), called(LOOK_UP), answered("Done."))
    path = [piece.path for piece in conversation.timeline().pieces if piece.kind == "result"][-1]
    conversation.model.add(called("react.hide", {"path": path, "replacement": "gone"}), answered("Hidden."))
    conversation.send("hide it", id="m2")
    conversation.run()
    before, after = views(conversation)[-2:]
    (reduced,) = [piece for piece in pieces_of(after) if piece.reduced]
    (whole,) = [piece for piece in pieces_of(before) if piece.path == path and piece.kind == "result"]
    assert reduced.reduced is not None
    assert (reduced.reduced.why, reduced.reduced.from_tokens, reduced.reduced.path) == (
        "hidden",
        whole.tokens,
        path,
    )
    assert not [piece for piece in pieces_of(before) if piece.reduced]


def test_pruned_pieces_have_a_reason_and_compacted_ones_their_former_size() -> None:
    conversation = SmallContext()
    conversation.turn("one", prose(9_000))
    conversation.turn("two")
    conversation.clock.pause(1_000)
    conversation.turn("three")
    (stub,) = [piece for piece in pieces_of(views(conversation)[-1]) if piece.kind == "result"]
    assert stub.reduced is not None
    assert (stub.reduced.why, stub.reduced.path) == ("pruned: ttl", stub.path)
    for text in ("four", "five"):
        conversation.talk(text)
    whys = [(piece.kind, piece.reduced) for piece in pieces_of(views(conversation)[-1]) if piece.reduced]
    (memory,) = [reduced for kind, reduced in whys if kind == "memory"]
    assert memory.why == "compacted"
    assert memory.from_tokens > stub.reduced.from_tokens


def difference(conversation: Conversation, first: int, second: int) -> RequestDiff:
    found = views(conversation)
    return diff_requests(found[first], found[second])


def test_the_next_request_only_adds_except_for_announce() -> None:
    conversation = talked(called(LOOK_UP), answered("Done."))
    found = difference(conversation, 0, 1)
    assert [run.op for run in found.runs] == ["same", "added", "changed"]
    assert [piece.kind for piece in found.runs[-1].pieces] == ["announce"]
    assert all(piece.text == "" for piece in found.runs[0].pieces)
    assert found.first_difference is not None
    assert found.first_difference.kind == "round"


def test_a_request_equals_itself() -> None:
    conversation = talked(called(LOOK_UP), answered("Done."))
    found = difference(conversation, 1, 1)
    assert [run.op for run in found.runs] == ["same"]
    assert found.first_difference is None


def test_the_first_difference_is_the_byte_where_the_texts_diverge() -> None:
    conversation = talked(called(LOOK_UP), called(LOOK_UP), answered("Done."))
    first, second = views(conversation)[:2]
    found = diff_requests(first, second).first_difference
    left, right = text_of(first).encode(), text_of(second).encode()
    assert found is not None
    assert left[: found.at_byte] == right[: found.at_byte]
    assert left[found.at_byte] != right[found.at_byte]


@settings(max_examples=budget(30, 300), deadline=None)
@given(logs(forgetting=True))
def test_tracing_reductions_does_not_change_the_timeline(log: LogBuilder) -> None:
    whole = Timeline.empty(LANE).extended(log.batches)
    traced = trace(Timeline.empty(LANE), log.batches)
    assert traced.timeline.parts == whole.parts
    shown = list(traced.pieces())
    assert [piece.text for piece, _ in shown if piece.text] == [p.text for p in whole.pieces if p.text]
    assert all(reduced.why for _, reduced in shown if reduced)
