"""A generation spelled from its recorded decision: parsed and judged anew, it gives the same decision."""

from random import Random

import pytest

from stepline.model.entry import Decided
from stepline.protocol.decision.spell import spell_generation
from tests.support.conversation import Conversation
from tests.support.generation import answer_of, answered, called, coded, said, tagged
from tests.support.recorded_talk import KINDS

FIELDS = (
    "action",
    "thinking",
    "notes",
    "actions",
    "answer",
    "followups",
    "summary",
    "show_artifacts",
    "show_skills",
)


def decided(generation):
    """Return the decision of a generation in the first round of a conversation."""
    conversation = Conversation(generation)
    conversation.programs(lambda _: None)
    conversation.send("hello")
    conversation.decide()
    return conversation.entries(Decided)[0]


@pytest.mark.parametrize(
    "generation",
    [
        called("react.read", {"paths": ["fi:x"]}, notes="I look."),
        coded("print(1)\n", "a.txt", notes="I count."),
        answered("Done.", suggested_followups=["And then?"]),
        answered('It has "quotes", \\ and\nlines, 3 €.'),
        f"{answered('Done.')}\n{tagged('summary', 'All of it.')}",
        said(answer_of("Done."), thinking=""),
        said(answer_of("Done."), thinking="One.\n\nTwo."),
    ],
)
def test_a_spelled_generation_gives_the_same_decision(generation):
    first = decided(generation)
    again = decided(spell_generation(first))
    assert first.accepted
    assert [getattr(again, name) for name in FIELDS] == [getattr(first, name) for name in FIELDS]


def test_every_accepted_decision_without_corrections_is_spelled_the_same_way_again():
    for kind in KINDS:
        for decision in kind(Random(11)).entries(Decided):
            text = spell_generation(decision)
            assert text == (decision.raw or decision.generation or text)
            assert bool(text) == (decision.declined is None)


def test_a_refused_generation_is_the_models_own_text():
    broken = said("{not json")
    assert spell_generation(decided(broken)) == broken
