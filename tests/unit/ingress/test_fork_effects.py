"""A fork knows the calls that its origin made after the point: the model reads them, and no equal `once` call runs unasked."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.loop.approvals.park import runs_unasked
from stepline.model.batch import BATCH_MAX_BYTES, Batch, encode_batch, forked_from
from stepline.model.entry import ApprovalRequested, Forked, Pruned, Resulted
from stepline.model.ids import Lane
from stepline.rendering.reduce import prune
from stepline.rendering.text_form import STANDARD
from stepline.timeline.compacted import CARRIED_MAX, newest_of_each
from stepline.timeline.fold import Timeline
from tests.support.conversation import LANE, USER, Conversation, text_of
from tests.support.effect_tools import KEEP, LOOK, SEND, asked, office
from tests.support.generation import answered, called
from tests.support.journal_conversation import JournalConversation

NOTE = {"path": "files/a.md", "content": "x"}
FORK = replace(LANE, conversation="c-2")


@pytest.fixture
def sent() -> Conversation:
    """A conversation of two turns; the second one has sent a mail and kept a row."""
    conversation = office(
        answered("hello"), asked(SEND, to="bob"), asked(KEEP, to="x"), asked(LOOK), answered("sent")
    )
    for text in ("hello", "send it"):
        conversation.send(text, id=f"m-{text[:5]}")
        conversation.run()
    return conversation


def forked(conversation: Conversation, *, at: str = "m-send ", lane: Lane = LANE, name: str = "c-2") -> Batch:
    point = ForkPoint(kind="message", at=at, before=True)
    return fork_conversation(conversation.ports, lane, point, user=USER, conversation=name)


def begin(batch: Batch) -> Forked:
    first = forked_from(batch)
    assert first is not None
    return first


def entries(conversation: Conversation, kind: Any, lane: Lane = FORK) -> list[Any]:
    own = conversation.batches(lane)
    return [entry for batch in own for entry in batch.entries if isinstance(entry, kind)]


def play(conversation: Conversation, *script: str, lane: Lane = FORK, number: int = 1) -> None:
    conversation.model.add(*script)
    conversation.send("again", id=f"f{number}", lane=lane)
    conversation.run()


def test_the_first_batch_of_a_fork_has_the_calls_after_its_point(sent: Conversation) -> None:
    first = begin(forked(sent))
    assert [(call.tool, call.effect, call.title) for call in first.effects] == [
        (SEND, "once", "to=bob"),
        (KEEP, "keyed", "to=x"),
    ]
    whole = fork_conversation(
        sent.ports, LANE, ForkPoint(kind="batch", at=str(sent.tail.n)), user=USER, conversation="c-3"
    )
    assert begin(whole).effects == ()


def test_the_model_reads_one_line_after_the_point_and_the_same_before_it(sent: Conversation) -> None:
    batch = forked(sent)
    play(sent, answered("ok"))
    play(sent, answered("ok"), number=2)
    one, two = (text_of(request) for request in sent.model.requests[-2:])
    before = Timeline.empty(LANE).extended(sent.batches()[: batch.n - 1])
    shared = "".join(piece.text for piece in before.pieces)
    line = "\n[FORKED] The conversation goes on from here without what followed. "
    line += f'These calls followed, too, and are not undone: {SEND} "to=bob" ok; {KEEP} "to=x" ok\n'
    assert one.startswith(shared + line)
    assert two.startswith(shared + line)
    assert "[FORKED]" not in text_of(sent.model.requests[-3])


def test_a_fork_without_such_calls_has_no_line(sent: Conversation) -> None:
    point = ForkPoint(kind="batch", at=str(sent.tail.n))
    fork_conversation(sent.ports, LANE, point, user=USER, conversation="c-2")
    play(sent, answered("ok"))
    assert "[FORKED]" not in text_of(sent.model.requests[-1])


def test_a_once_call_equal_to_one_of_them_asks_a_person_whatever_the_policy_says(sent: Conversation) -> None:
    forked(sent)
    sent.agent = replaced(sent.agent, approvals=lambda _: "never")
    play(sent, asked(SEND, to="eve"), asked(KEEP, to="x"), asked(SEND, to="bob"), answered("sent again"))
    assert [entry.tool_id for entry in entries(sent, Resulted)] == [SEND, KEEP]
    (request,) = entries(sent, ApprovalRequested)
    assert (request.action.params, request.rule) == ({"to": "bob"}, "always")
    answer = ApprovalAnswer(message_id="a1", user=USER, call_id=request.action.call_id, verdict="approved")
    answer_request(sent.ports, FORK, answer)
    sent.run()
    assert [entry.status for entry in entries(sent, Resulted)] == ["ok"] * 3


def test_the_question_is_asked_again_after_a_segment_and_in_another_process(sent: Conversation) -> None:
    sent.ports = replaced(sent.ports, policy=replaced(sent.ports.policy, seal_batches=1))
    forked(sent)
    for number in range(3):
        play(sent, answered("ok"), number=number)
    assert sent.batches(FORK)[-1].state.segment > begin(sent.batches(FORK)[0]).n
    sent.history = History()
    play(sent, asked(SEND, to="bob"), number=9)
    assert len(entries(sent, ApprovalRequested)) == 1


def test_a_fork_of_a_fork_has_the_calls_of_both_origins(sent: Conversation) -> None:
    forked(sent)
    play(sent, asked(SEND, to="eve"), answered("ok"))
    third = replace(LANE, conversation="c-3")
    first = begin(forked(sent, at="f1", lane=FORK, name="c-3"))
    assert [call.title for call in first.effects] == ["to=eve"]
    play(sent, asked(SEND, to="bob"), lane=third, number=2)
    play_asks = entries(sent, ApprovalRequested, third)
    assert [one.action.params for one in play_asks] == [{"to": "bob"}]
    early = fork_conversation(
        sent.ports, FORK, ForkPoint(kind="message", at="m-hello"), user=USER, conversation="c-4"
    )
    assert [call.title for call in begin(early).effects] == ["to=bob", "to=x", "to=eve"]


def test_a_program_of_a_fork_may_not_call_a_tool_that_its_origin_called_once(sent: Conversation) -> None:
    forked(sent)
    timeline = History().load(Journal(sent.ports, FORK, "test"), consistent=True)
    assert [runs_unasked(sent.agent, timeline, one) for one in (SEND, KEEP, LOOK)] == [False, True, True]
    assert runs_unasked(sent.agent, sent.timeline(), SEND)


def test_the_line_outlives_a_pruning_and_a_compaction(sent: Conversation) -> None:
    batch = forked(sent)
    timeline = History().load(Journal(sent.ports, FORK, "test"), consistent=True)
    (line,) = [piece for piece in timeline.pieces if piece.n == batch.n and piece.kind == "note"]
    assert line.text.startswith("\n[FORKED]")
    pruned = prune(timeline.pieces, Pruned(turn="t", at="", cause="ttl", keep=1, intact=1), 9, STANDARD)
    assert line in pruned
    assert line in newest_of_each(timeline.pieces, CARRIED_MAX)


def test_a_journal_has_the_line_between_the_prior_turns_and_the_current_one() -> None:
    conversation = JournalConversation(answered("hello"), called("react.write", NOTE), answered("written"))
    for number in (1, 2):
        conversation.send(id=f"m{number}")
        conversation.run()
    point = ForkPoint(kind="message", at="m2", before=True)
    fork_conversation(conversation.ports, LANE, point, user=USER, conversation="c-2")
    play(conversation, answered("ok"))
    play(conversation, answered("ok"), number=2)
    for request, turns in zip(conversation.model.requests[-2:], (1, 2), strict=True):
        before, line, after = text_of(request).partition("\n[FORKED] ")
        assert before.count("=== PRIOR TURN") == turns
        assert after.startswith("The conversation goes on from here without what followed.")
        assert 'react.write "path=' in after.splitlines()[0]
        assert line
        assert "[SESSION LOG" in after


def test_a_fork_keeps_at_most_a_hundred_calls_in_half_a_batch_and_once_ones_first() -> None:
    conversation = office()
    long = "x" * 200
    conversation.send(id="m0")
    conversation.model.add(asked(SEND, to=long), answered("ok"))
    conversation.run()
    for number in range(12):
        conversation.model.add(*[asked(KEEP, to=f"{number} {n} {long}") for n in range(10)], answered("ok"))
        conversation.send(id=f"m{number + 1}")
        conversation.run()
    point = ForkPoint(kind="batch", at="1")
    batch = fork_conversation(conversation.ports, LANE, point, user=USER, conversation="c-2")
    effects = begin(batch).effects
    assert effects[0].tool == SEND
    assert 40 < len(effects) <= 100
    assert [call.n for call in effects] == sorted(call.n for call in effects)
    assert len(encode_batch(batch)) <= BATCH_MAX_BYTES
