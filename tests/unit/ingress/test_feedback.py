"""Feedback: from its author to the log, and from the log to the model."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.errors import InputError, LimitError, NotFoundError
from stepline.events.derive import derive, newest_event
from stepline.ingress.feedback import Stated, submit_feedback
from stepline.model.decision import FEEDBACK_CHARS
from stepline.model.entry import Feedback
from stepline.model.ids import Lane
from stepline.timeline.fold import Timeline
from tests.support.conversation import LANE, USER, Conversation, text_of
from tests.support.generation import answered


class Rated(Conversation):
    """A conversation with one finished turn and more answers to come."""

    def __init__(self, *script: Any, **fields: Any) -> None:
        super().__init__(answered("one"), *script, **fields)
        self.send("first", id="m0")
        self.run()
        self.first = self.timeline().turns[0]

    def rate(self, reaction: Any = "not_ok", text: str = "", **fields: Any) -> Stated:
        user, lane = fields.pop("user", USER), fields.pop("lane", LANE)
        named = fields.pop("id", "")
        opinion = Feedback(**{"at": "", "turn": self.first, "reaction": reaction, "text": text, **fields})
        return submit_feedback(self.ports, self.history, lane, opinion, user=user, message_id=named)

    def check(self, text: str = "No source.", **fields: Any) -> Stated:
        """Rate the first turn as a machine."""
        return self.rate(
            **{"reaction": "not_ok", "text": text, "confidence": 0.8, "origin": "machine", **fields}
        )

    def counted(self) -> list[tuple[str, str | None, str]]:
        """Return the rows of the index for this conversation."""
        return [(row.origin, row.reaction, row.text) for row in self.log.conversation_feedback(LANE)]

    def ask(self, text: str = "more") -> str:
        """Run a turn; return the text of its last request."""
        self.send(text, id=f"m{len(self.batches())}")
        self.run()
        return text_of(self.model.requests[-1])

    def shown(self) -> str:
        return "".join(piece.text for piece in self.timeline().pieces)


def test_each_feedback_enters_the_log_once() -> None:
    conversation = Rated()
    put = conversation.rate(text="too long")
    again = conversation.rate(text="too long", given_at="2026-11-21T10:00:00Z")
    assert (put.duplicate, again.duplicate) == (False, True)
    assert (again.n, again.feedback) == (put.n, put.feedback)
    (entry,) = conversation.entries(Feedback)
    assert (entry.turn, entry.reaction, entry.text, entry.origin) == (
        conversation.first,
        "not_ok",
        "too long",
        "user",
    )
    assert not conversation.rate(text="no, fine").duplicate
    assert not conversation.rate(text="too long").duplicate


def test_each_origin_has_its_own_current_feedback() -> None:
    conversation = Rated()
    conversation.check()
    conversation.rate("ok", text="good")
    blocks = conversation.timeline().resolve(f"ar:{conversation.first}.feedback.latest")
    assert [(block.author, block.meta["reaction"], block.meta["confidence"]) for block in blocks] == [
        ("user", "ok", None),
        ("system", "not_ok", 0.8),
    ]
    assert conversation.counted() == [("machine", "not_ok", "No source."), ("user", "ok", "good")]
    conversation.rate(None)
    assert conversation.counted() == [("machine", "not_ok", "No source.")]


def test_a_resent_message_is_the_same_feedback_despite_later_ones() -> None:
    conversation = Rated()
    put = conversation.rate("ok", id="m-1")
    conversation.rate("not_ok", id="m-2")
    again = conversation.rate("ok", id="m-1")
    assert (again.duplicate, again.n) == (True, put.n)
    assert conversation.counted() == [("user", "not_ok", "")]


def test_the_id_of_another_message_is_refused_for_feedback() -> None:
    conversation = Rated()
    with pytest.raises(InputError) as refused:
        conversation.rate("ok", id="m0")
    assert refused.value.reason == "message_id_taken"


def test_feedback_without_a_turn_is_on_the_newest_ended_turn() -> None:
    conversation = Rated()
    conversation.send("second", id="m1")
    assert conversation.rate("ok", turn="").feedback.turn == conversation.first


def test_clients_get_feedback_at_its_turn() -> None:
    conversation = Rated(answered("two"))
    conversation.ask("second")
    put = conversation.rate("ok", text="good")
    (event,) = derive(conversation.batches()[-1])
    assert (event.type, event.turn_id) == ("turn.feedback", conversation.first)
    assert event.data == {"origin": "user", "reaction": "ok", "text": "good"}
    assert newest_event(conversation.batches()[-1]) == put.n
    conversation.rate(None)
    (event,) = derive(conversation.batches()[-1])
    assert event.data == {"origin": "user", "reaction": None, "withdrawn": True}


def test_feedback_of_an_earlier_release_stays_without_an_event() -> None:
    conversation = Rated()
    conversation.rate("ok")
    batch = conversation.batches()[-1]
    (entry,) = (one for one in batch.entries if isinstance(one, Feedback))
    older = replace(batch, entries=(replace(entry, turn_at=""),))
    assert (derive(older), newest_event(older)) == ((), batch.state.prev)


def test_the_clients_time_of_feedback_is_stored_but_unused() -> None:
    conversation = Rated()
    conversation.rate("ok", given_at="2026-11-21T10:00:00+02:00")
    later = conversation.rate("not_ok", given_at="1999-01-01").feedback
    (row,) = conversation.log.conversation_feedback(LANE)
    assert (row.reaction, row.given_at) == ("not_ok", "1999-01-01T00:00:00.000Z")
    assert row.at == later.at > row.given_at


def test_withdrawing_absent_feedback_writes_nothing() -> None:
    conversation = Rated()
    before = conversation.batches()
    taken = conversation.rate(None)
    assert (taken.duplicate, conversation.batches()) == (True, before)


def test_withdrawn_feedback_leaves_a_tombstone_without_words() -> None:
    conversation = Rated()
    conversation.rate("ok", text="good")
    assert not conversation.rate(None, text="and this is not kept").duplicate
    assert conversation.rate(None).duplicate
    (block,) = conversation.timeline().resolve(f"ar:{conversation.first}.feedback.latest")
    assert block.meta["withdrawn"] is True
    assert "good" not in block.text
    assert "kept" not in block.text
    assert conversation.counted() == []


def test_feedback_of_an_unsure_or_silent_machine_is_refused() -> None:
    conversation = Rated()
    before = conversation.batches()
    for wrong in ({"confidence": 0.69}, {"confidence": None}, {"confidence": 1.1}, {"text": " "}):
        with pytest.raises(InputError) as refused:
            conversation.check(**wrong)
        assert refused.value.reason == "bad_feedback"
    assert conversation.batches() == before
    assert not conversation.check(confidence=0.7).duplicate


@pytest.mark.parametrize(
    ("fields", "error", "code"),
    [
        ({"user": "eve"}, NotFoundError, "not_found"),
        (
            {"lane": Lane(tenant="acme", project="support", conversation="other")},
            NotFoundError,
            "not_found",
        ),
        ({"turn": "turn_20261121T101500_ab12cd"}, NotFoundError, "turn_not_found"),
        ({"turn": "", "user": "eve"}, NotFoundError, "not_found"),
        ({"text": "x" * (FEEDBACK_CHARS + 1)}, LimitError, "limit_exceeded"),
        ({"given_at": "yesterday"}, InputError, "bad_message"),
    ],
    ids=["stranger", "no conversation", "no turn", "unnamed turn", "too long", "no time"],
)
def test_invalid_feedback_is_refused_by_its_code(fields: dict[str, Any], error: type[Any], code: str) -> None:
    with pytest.raises(error) as refused:
        Rated().rate(**fields)
    assert refused.value.reason == code


def test_a_running_turn_cannot_be_rated() -> None:
    conversation = Rated()
    conversation.send("second", id="m1")
    with pytest.raises(InputError) as refused:
        conversation.rate(turn=conversation.state.turn)
    assert refused.value.reason == "turn_open"


def test_feedback_is_announced_each_round_while_a_cache_may_live() -> None:
    conversation = Rated(answered("two"))
    before = conversation.shown()
    conversation.rate(text="too long")
    assert conversation.shown() == before
    assert conversation.timeline().fresh == [f"{conversation.first}/user"]
    prompt = conversation.ask()
    assert "too long" in prompt
    assert conversation.shown().startswith(before)
    assert "too long" not in conversation.shown()
    assert conversation.timeline().fresh == [f"{conversation.first}/user"]


def test_feedback_is_shown_after_its_turn_once_no_cache_lives() -> None:
    conversation = Rated(answered("two"), answered("three"))
    conversation.rate(text="too long")
    conversation.clock.pause(1000)
    first = conversation.ask()
    assert first.index("too long") < first.index("  more")
    opening = next(
        batch.n for batch in conversation.batches() if batch.state.turn not in ("", conversation.first)
    )
    opened = Timeline.empty(LANE).extended(conversation.batches()[:opening])
    assert (opened.fresh, opened.incorporated) == ([], [f"{conversation.first}/user"])
    assert (conversation.timeline().fresh, conversation.timeline().incorporated) == ([], [])
    assert conversation.ask("again").count("too long") == 1


def test_feedback_is_a_block_of_its_turn() -> None:
    conversation = Rated()
    conversation.rate(text="too long")
    (block,) = conversation.timeline().resolve(f"ar:{conversation.first}.feedback.latest")
    assert (block.type, block.turn_id) == ("turn.feedback", conversation.first)


def test_newer_feedback_replaces_older_feedback() -> None:
    conversation = Rated(answered("two"), answered("three"), answered("four"))
    for text in ("too long", "much better", ""):
        conversation.rate("ok" if text else None, text=text)
        conversation.clock.pause(1000)
        prompt = conversation.ask()
        words = ("too long", "much better", "reaction: withdrawn")
        assert [word in prompt for word in words] == [text == "too long", text == "much better", not text]


def test_a_withdrawal_is_announced_while_a_cache_may_live() -> None:
    conversation = Rated(answered("two"), answered("three"))
    conversation.rate("not_ok", text="too long")
    assert "| user | not_ok | too long" in conversation.ask()
    conversation.rate(None)
    prompt = conversation.ask("again")
    assert "| user | withdrawn | " in prompt
    assert "too long" not in prompt


def test_a_users_feedback_precedes_a_machines() -> None:
    conversation = Rated(answered("two"))
    conversation.check()
    conversation.rate("ok", text="good")
    conversation.clock.pause(1000)
    prompt = conversation.ask()
    assert 0 < prompt.index("[USER FEEDBACK]") < prompt.index("[AUTO FEEDBACK]")
