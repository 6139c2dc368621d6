"""In any sequence, one feedback counts per turn and origin: in the log, in its index and in the model's text."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.errors import InputError
from stepline.ingress.feedback import submit_feedback
from stepline.model.entry import Feedback
from stepline.rendering.turn_facts import feedback_path
from tests.support.budget import budget
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

reactions = st.sampled_from(["ok", "not_ok", "neutral", None])
said = st.fixed_dictionaries(
    {
        "turn": st.integers(0, 3),
        "origin": st.sampled_from(["user", "machine"]),
        "reaction": reactions,
        "text": st.sampled_from(["", "too long", "fine"]),
        "confidence": st.sampled_from([0.7, 0.9]),
    }
)
steps = st.lists(st.one_of(said, st.sampled_from(["turn", "open", "wait"])), max_size=14)


class World:
    """A conversation, and the feedback that counts in it by a rule of one line."""

    def __init__(self) -> None:
        self.loop = Conversation()
        self.counts: dict[tuple[str, str], tuple[str | None, str]] = {}
        self.refused: list[str] = []

    def begin(self) -> None:
        self.loop.model.add(answered("fine"))
        self.loop.send("go on", id=f"m{len(self.loop.batches())}")

    def rate(self, opinion: dict[str, Any]) -> None:
        turns = self.loop.timeline().history
        if not turns:
            return
        turn = turns[opinion["turn"] % len(turns)]
        given_ = Feedback(**{"at": "", **opinion, "turn": turn.id})
        before = len(self.loop.batches())
        try:
            submit_feedback(self.loop.ports, self.loop.history, LANE, given_, user=USER)
        except InputError as error:
            self.refused.append(error.reason)
            assert len(self.loop.batches()) == before
            return
        is_withdrawn = given_.reaction is None and (given_.origin == "user" or not given_.text)
        self.counts.pop((turn.id, given_.origin), None)
        if not is_withdrawn:
            self.counts[turn.id, given_.origin] = (given_.reaction, given_.text)

    def check(self) -> None:
        assert set(self.refused) <= {"turn_open", "bad_feedback"}
        timeline = self.loop.timeline()
        current = [entry for entry in timeline.feedback.values() if not entry.withdrawn]
        assert {(e.turn, e.origin): (e.reaction, e.text) for e in current} == self.counts
        assert len(current) == len(self.counts)
        rows = self.loop.log.conversation_feedback(LANE)
        assert {(row.turn, row.origin): (row.reaction, row.text) for row in rows} == self.counts
        assert len(rows) == len(self.counts)
        shown = [(piece.path, piece.tool) for piece in timeline.pieces if piece.kind == "feedback"]
        assert len(shown) == len(set(shown))
        for turn in timeline.turns:
            origins = [block.meta["origin"] for block in timeline.resolve(feedback_path(turn))]
            assert origins == sorted(set(origins), reverse=True)  # the user's first


@given(steps)
@settings(max_examples=budget(15, 500), deadline=None)
def test_one_feedback_counts_per_turn_and_origin(plan: list[Any]) -> None:
    world = World()
    for step in plan:
        match step:
            case "turn":
                world.begin()
                world.loop.run()
            case "open":
                world.begin()
            case "wait":
                world.loop.clock.pause(1_000)
            case opinion:
                world.rate(opinion)
    world.check()
