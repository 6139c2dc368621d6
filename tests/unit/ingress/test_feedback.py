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
from tests.support.conversation import LANE, USER, Scene, answered


class Rated(Scene):
    """A conversation with one finished turn and more answers to come."""

    def __init__(self, *script: Any, **fields: Any) -> None:
        super().__init__(answered("one"), *script, **fields)
        self.send("first", id="m0")
        self.run()
        self.first = self.timeline.turns[0]

    @property
    def timeline(self) -> Timeline:
        return Timeline.empty(LANE).extended(self.batches())

    def rate(self, reaction: Any = "not_ok", text: str = "", **fields: Any) -> Batch | None:
        user, lane = fields.pop("user", USER), fields.pop("lane", LANE)
        opinion = Opinion(**{"turn": self.first, "reaction": reaction, "text": text, **fields})
        return submit_feedback(self.ports, self.history, lane, opinion, user=user)

    def ask(self, text: str = "more") -> str:
        """Run a turn; return the text of its last request."""
        self.send(text, id=f"m{len(self.batches())}")
        self.run()
        return "".join(part.text for part in self.model.requests[-1].content)

    def shown(self) -> str:
        return "".join(piece.text for piece in self.timeline.pieces)


def test_what_is_said_enters_the_log_once() -> None:
    scene = Rated()
    put = scene.rate(text="too long")
    assert put is not None
    assert scene.rate(text="too long") is None
    (entry,) = scene.entries(Feedback)
    assert (entry.turn, entry.reaction, entry.text, entry.origin) == (
        scene.first,
        "not_ok",
        "too long",
        "user",
    )
    assert scene.rate(text="no, fine") is not None
    assert scene.rate(text="too long") is not None


def test_each_origin_has_its_own_newest_word() -> None:
    scene = Rated()
    scene.rate("ok", text="good")
    scene.rate(None, origin="machine", confidence=0.4)
    blocks = scene.timeline.resolve(f"ar:{scene.first}.feedback.latest")
    assert [(block.author, block.meta["reaction"], block.meta["confidence"]) for block in blocks] == [
        ("user", "ok", None),
        ("system", None, 0.4),
    ]


def test_taking_back_what_was_never_said_says_nothing() -> None:
    scene = Rated()
    assert scene.rate(None) is None
    scene.rate("ok")
    assert scene.rate(None) is not None
    assert scene.timeline.resolve(f"ar:{scene.first}.feedback.latest") == ()


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
    scene = Rated()
    scene.send("second", id="m1")
    with pytest.raises(InputError) as refused:
        scene.rate(turn=scene.state.turn)
    assert refused.value.reason == "turn_open"


def test_while_a_cache_may_live_history_stays_and_every_round_is_told() -> None:
    scene = Rated(answered("two"))
    before = scene.shown()
    scene.rate(text="too long")
    assert scene.shown() == before
    assert scene.timeline.fresh == [f"{scene.first}/user"]
    prompt = scene.ask()
    assert "too long" in prompt
    assert scene.shown().startswith(before)
    assert "too long" not in scene.shown()
    assert scene.timeline.fresh == [f"{scene.first}/user"]


def test_once_no_cache_lives_it_stands_behind_its_turn_and_is_mentioned_once() -> None:
    scene = Rated(answered("two"), answered("three"))
    scene.rate(text="too long")
    scene.clock.pause(1000)
    first = scene.ask()
    assert first.index("too long") < first.index("  more")
    opening = next(batch.n for batch in scene.batches() if batch.state.turn not in ("", scene.first))
    opened = Timeline.empty(LANE).extended(scene.batches()[:opening])
    assert (opened.fresh, opened.incorporated) == ([], [f"{scene.first}/user"])
    assert (scene.timeline.fresh, scene.timeline.incorporated) == ([], [])
    assert scene.ask("again").count("too long") == 1


def test_a_newer_word_takes_the_place_of_an_older_one() -> None:
    scene = Rated(answered("two"), answered("three"), answered("four"))
    for text in ("too long", "much better", ""):
        scene.rate("ok" if text else None, text=text)
        scene.clock.pause(1000)
        prompt = scene.ask()
        assert [word in prompt for word in ("too long", "much better")] == [
            text == "too long",
            text == "much better",
        ]
