"""Calls with lasting effects after a point: they are listed from the log alone, with the effect that they had then."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.inspection.made_calls import CALLS_MAX, made_calls, show_effects
from stepline.log.journal import Journal
from stepline.model.batch import EMPTY
from stepline.model.decision import LastingCall
from stepline.model.entry import ApprovalRequested, Resulted
from tests.support.conversation import LANE, USER, Conversation
from tests.support.effect_tools import KEEP, LOOK, SEND, asked, office
from tests.support.generation import answered


def played(*script: Any) -> Conversation:
    conversation = office(*script)
    conversation.send()
    conversation.run()
    return conversation


def found(conversation: Conversation, after: int = 0) -> list[LastingCall]:
    journal = Journal(conversation.ports, LANE, "test")
    begin = (journal.get(after) if after else None) or EMPTY
    return made_calls(journal, begin, conversation.tail.n)


def test_calls_of_keyed_and_once_tools_are_listed_with_their_place_and_pure_ones_are_not() -> None:
    conversation = played(asked(SEND, to="bob@example.com"), asked(LOOK), asked(KEEP, to="x"), answered("ok"))
    (turn,) = conversation.timeline().turns
    sent, kept = found(conversation)
    assert (sent.tool, sent.effect, sent.turn_id, sent.iteration, sent.status) == (
        SEND,
        "once",
        turn,
        0,
        "ok",
    )
    assert (kept.tool, kept.effect, kept.iteration, kept.title) == (KEEP, "keyed", 2, "to=x")
    assert [one.n for one in (sent, kept)] == [
        batch.n
        for batch in conversation.batches()
        for entry in batch.entries
        if isinstance(entry, Resulted) and entry.tool_id != LOOK
    ]
    assert found(conversation, sent.n) == [kept]
    assert found(conversation, kept.n) == []


def test_a_point_between_a_decision_and_its_result_lists_the_call_with_its_parameters() -> None:
    conversation = played(asked(SEND, to="bob"), answered("ok"))
    (sent,) = found(conversation)
    assert [found(conversation, n) for n in range(1, sent.n)] == [[sent]] * (sent.n - 1)


def test_equal_calls_have_one_digest_and_others_another() -> None:
    conversation = played(
        asked(SEND, to="bob", text="x"),
        asked(SEND, text="x", to="bob"),
        asked(SEND, to="eve", text="x"),
        answered("ok"),
    )
    first, again, other = [one.digest for one in found(conversation)]
    assert first == again != other


def test_a_call_that_never_ran_is_not_listed() -> None:
    conversation = office(asked(SEND, to=7), asked("mail.fly"), answered("ok"))
    conversation.send()
    conversation.run()
    assert found(conversation) == []


@pytest.mark.parametrize("verdict", ["denied", "approved", "edited"])
def test_a_denied_call_is_not_listed_and_an_edited_one_is_listed_as_it_ran(verdict: Any) -> None:
    conversation = office(asked(SEND, to="bob"), answered("ok"))
    conversation.agent = replaced(conversation.agent, approvals=lambda _: "always")
    conversation.send()
    conversation.run()
    (request,) = conversation.entries(ApprovalRequested)
    given: dict[str, Any] = {"params": {"to": "eve"}} if verdict == "edited" else {}
    answer = ApprovalAnswer(
        message_id="a1", user=USER, call_id=request.action.call_id, verdict=verdict, **given
    )
    answer_request(conversation.ports, LANE, answer)
    conversation.run()
    titles = {"denied": [], "approved": ["to=bob"], "edited": ["to=eve"]}
    assert [one.title for one in found(conversation)] == titles[verdict]


def test_a_started_call_without_a_result_is_listed_as_running() -> None:
    conversation = office(asked(SEND, to="bob"), answered("ok"))
    conversation.send()
    conversation.decide()
    decided = conversation.tail.n
    conversation.act()
    until = decided + 1  # the batch of the start
    journal = Journal(conversation.ports, LANE, "test")
    (running,) = made_calls(journal, conversation.batches()[0], until)
    assert (running.status, running.effect, running.n) == ("running", "once", until)


def test_a_log_without_effect_classes_still_names_the_calls_that_were_started() -> None:
    conversation = played(asked(SEND, to="bob"), asked(KEEP), asked(LOOK), answered("ok"))
    old = [
        replace(
            batch,
            entries=tuple(
                replace(entry, effect=None) if isinstance(entry, Resulted) else entry
                for entry in batch.entries
            ),
        )
        for batch in conversation.batches()
    ]
    other = Conversation()
    for batch in old:
        other.log.put(LANE, batch)
    assert [(one.tool, one.effect) for one in found(other)] == [(SEND, "once")]


def test_a_list_for_clients_is_bounded_and_says_that_there_are_more() -> None:
    conversation = office()
    for turn in range(11):
        conversation.model.add(*[asked(KEEP, to=f"{turn}.{n}") for n in range(10)], answered("ok"))
        conversation.send(id=f"m{turn}")
        conversation.run()
    journal = Journal(conversation.ports, LANE, "test")
    shown = show_effects(journal, EMPTY, conversation.tail.n)
    assert (len(shown.items), shown.more, shown.items[0].title) == (CALLS_MAX, True, "to=0.0")
    later = show_effects(journal, conversation.batches()[-30], conversation.tail.n)
    assert not later.more
