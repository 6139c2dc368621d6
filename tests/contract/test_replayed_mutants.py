"""Replays of recorded turns see a changed parser, validator or renderer: mutants of functions that they run."""

from __future__ import annotations

import logging
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from stepline.errors import SteplineError
from stepline.replay.load_record import load_record
from stepline.replay.recorded_turn import RecordedTurn, find_turns
from stepline.replay.replay_turn import ReplayAgent, replay_turns
from tests.mutants.listing import Mutant, find
from tests.mutants.session import run_children, swap
from tests.support.budget import budget
from tests.support.conversation import LANE
from tests.support.recorded_talk import KINDS, replayer, talks

if TYPE_CHECKING:
    from stepline.ports.artifacts import Artifacts

TURNS = budget(30, 500)
CPU_S = 120
MUTANTS = {
    "parser": (
        "protocol.ChannelParser._open: or -> and",
        "protocol.ChannelParser._judge: own -> None",
        'protocol.FieldStream._begin: text.find("{") -> text.rfind("{")',
    ),
    "validator": (
        'protocol._channels: "tool_call" -> "XXtool_callXX"',
        "protocol.check_order: () if spec.any_order else spec.documented -> None",
        "protocol.check_call: tool_id = call.tool_id -> tool_id = None",
    ),
    "renderer": (
        'rendering._sender: "" -> "XXXX"',
        'rendering.Writer.call: "tool" -> "XXtoolXX"',
        "rendering.Writer.decision: form.notes(entry.notes, path) -> form.notes(None, path)",
    ),
}
"""Names as `tests/mutants/table.json` has them: a mutant whose function is gone is left out."""


class Recorded(NamedTuple):
    """The turns of a conversation, and what replays them."""

    turns: list[RecordedTurn]
    through: ReplayAgent
    artifacts: Artifacts


@pytest.fixture(scope="module")
def records() -> list[Recorded]:
    """Return conversations of every kind with at least TURNS turns."""
    drawn, found = talks(Random(46)), []
    while len(found) < len(KINDS) or sum(len(one.turns) for one in found) < TURNS:
        conversation = next(drawn)
        artifacts = conversation.ports.artifacts
        turns = find_turns(LANE, load_record(conversation.log, artifacts, LANE))
        found.append(Recorded(turns, replayer(conversation), artifacts))
    return found


def first_difference_of(records: list[Recorded], mutant: Mutant | None) -> str:
    """Return where a replay first differs, or its error; "" if all are equal."""
    logging.disable(logging.CRITICAL)
    if mutant and not swap(mutant):
        return "skipped"
    for turns, through, artifacts in records:
        try:
            found = [one.where for one in replay_turns(turns, through, artifacts) if one.outcome != "equal"]
        except (SteplineError, TypeError, AttributeError, KeyError, ValueError, IndexError) as error:
            return type(error).__name__
        if found:
            return found[0]
    return ""


@pytest.mark.parametrize("part", MUTANTS)
def test_recorded_turns_are_equal_as_they_are_and_not_with_a_mutant(
    part: str, records: list[Recorded]
) -> None:
    mutants = {name: found for name in MUTANTS[part] if (found := find(name))}
    assert len(mutants) > 1, "functions were renamed: draw others by tests.mutants.listing"
    works = [("", partial(first_difference_of, records, None), CPU_S)]
    works += [(name, partial(first_difference_of, records, one), CPU_S) for name, one in mutants.items()]
    found = dict(run_children(works, 2))
    assert found.pop("") == ""
    assert [name for name, where in found.items() if where in ("", "skipped")] == []
