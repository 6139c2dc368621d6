"""Feedback: from who gives it to the log, and from the log to the model."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.errors import InputError, LimitError, NotFoundError
from stepline.ingress.feedback import TEXT_MAX_CHARS, Opinion, submit_feedback
from stepline.model.batch import Batch
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

    def rate(self, reaction: Any = "not_ok", text: str = "", **fields: Any) -> Batch | None:
        user, lane = fields.pop("user", USER), fields.pop("lane", LANE)
        opinion = Opinion(**{"turn": self.first, "reaction": reaction, "text": text, **fields})
        return submit_feedback(self.ports, self.history, lane, opinion, user=user)

    def ask(self, text: str = "more") -> str:
        """Run a turn; return the text of its last request."""
        self.send(text, id=f"m{len(self.batches())}")
        self.run()
        return text_of(self.model.requests[-1])

    def shown(self) -> str:
        return "".join(piece.text for piece in self.timeline().pieces)


def test_what_is_said_enters_the_log_once() -> None:
    conversation = Rated()
    put = conversation.rate(text="too long")
    assert put is not None
    assert conversation.rate(text="too long") is None
    (entry,) = conversation.entries(Feedback)
    assert (entry.turn, entry.reaction, entry.text, entry.origin) == (
        conversation.first,
        "not_ok",
        "too long",
        "user",
    )
    assert conversation.rate(text="no, fine") is not None
    assert conversation.rate(text="too long") is not None


def test_each_origin_has_its_own_newest_word() -> None:
    conversation = Rated()
    conversation.rate("ok", text="good")
    conversation.rate(None, origin="machine", confidence=0.4)
    blocks = conversation.timeline().resolve(f"ar:{conversation.first}.feedback.latest")
    assert [(block.author, block.meta["reaction"], block.meta["confidence"]) for block in blocks] == [
        ("user", "ok", None),
        ("system", None, 0.4),
    ]


def test_taking_back_what_was_never_said_says_nothing() -> None:
    conversation = Rated()
    assert conversation.rate(None) is None
    conversation.rate("ok")
    assert conversation.rate(None) is not None
    assert conversation.timeline().resolve(f"ar:{conversation.first}.feedback.latest") == ()


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
        ({"text": "x" * (TEXT_MAX_CHARS + 1)}, LimitError, "limit_exceeded"),
    ],
    ids=["stranger", "no conversation", "no turn", "too long"],
)
def test_what_cannot_be_taken_is_refused(fields: dict[str, Any], error: type[Any], code: str) -> None:
    with pytest.raises(error) as refused:
        Rated().rate(**fields)
    assert refused.value.reason == code


def test_a_turn_that_runs_is_not_rated() -> None:
    conversation = Rated()
    conversation.send("second", id="m1")
    with pytest.raises(InputError) as refused:
        conversation.rate(turn=conversation.state.turn)
    assert refused.value.reason == "turn_open"


def test_while_a_cache_may_live_history_stays_and_every_round_is_told() -> None:
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


def test_once_no_cache_lives_it_stands_behind_its_turn_and_is_mentioned_once() -> None:
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


def test_it_is_a_block_of_its_turn() -> None:
    conversation = Rated()
    conversation.rate(text="too long")
    (block,) = conversation.timeline().resolve(f"ar:{conversation.first}.feedback.latest")
    assert (block.type, block.turn_id) == ("turn.feedback", conversation.first)


def test_a_newer_word_takes_the_place_of_an_older_one() -> None:
    conversation = Rated(answered("two"), answered("three"), answered("four"))
    for text in ("too long", "much better", ""):
        conversation.rate("ok" if text else None, text=text)
        conversation.clock.pause(1000)
        prompt = conversation.ask()
        assert [word in prompt for word in ("too long", "much better")] == [
            text == "too long",
            text == "much better",
        ]
