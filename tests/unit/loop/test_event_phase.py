"""The published table of live events, cell by cell: the loop follows the rules of each class in each phase."""

from typing import get_args

import pytest

from stepline.model.wire.live_event import RULES, EventClass
from tests.support.conversation import Conversation
from tests.unit.loop.event_phase import ENDS, PHASES, SENT, fate, play

CLASSES = get_args(EventClass)
FATES = {"opens": "opened", "promoted": "promoted", "kept": "kept"}


def expected(event_class: EventClass, phase: str) -> str:
    """Return the fate of an event in this phase by the rules of its class."""
    rule = RULES[event_class]
    if phase == "idle":
        return FATES.get(rule.idle, "handed_back nothing_to_steer")
    if phase == "last":
        return FATES.get(rule.unseen, "handed_back turn_closed")
    if phase == "close":
        return "seen" if rule.holds else FATES.get(rule.unseen, "handed_back turn_closed")
    if phase == "stopped":
        return FATES.get(rule.stopped, "handed_back stopped")
    if rule.interrupts:
        return "stopped" if rule.then == "close" else "finalized"
    # A tool, a program and a call that waited are followed by another round in any case; an answer is not.
    return "seen" if rule.holds or phase in ("act", "program", "parked") else FATES[rule.unseen]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("event_class", CLASSES)
def test_an_event_gets_the_fate_of_its_rules(event_class: EventClass, phase: str) -> None:
    assert fate(play(event_class, phase)) == expected(event_class, phase)


def test_the_table_has_every_class_and_every_end() -> None:
    assert set(SENT) == set(CLASSES) == set(RULES)
    found = {expected(event_class, phase).split()[0] for event_class in CLASSES for phase in PHASES}
    assert found == set(ENDS)


@pytest.mark.parametrize("event_class", CLASSES)
def test_an_event_is_sent_as_its_class_says(event_class: EventClass) -> None:
    conversation = Conversation()
    conversation.send()
    conversation.send(id="event", **SENT[event_class])
    assert conversation.tail.entries[0].event_class == event_class  # type: ignore[union-attr]  # it admits one
