"""Turns of forks, replayed: those of the origin, the one that the fork ended, and those of its own."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.replay.load_record import load_record
from stepline.replay.recorded_turn import find_turns
from stepline.replay.replay_turn import replay_turns
from tests.support.budget import budget
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called
from tests.support.recorded_talk import KINDS, replayer

if TYPE_CHECKING:
    from stepline.model.ids import Lane
    from stepline.replay.turn_report import TurnReport


def fork(conversation: Conversation, n: int, *, of: Lane = LANE, name: str = "") -> Lane:
    """Fork a conversation after batch `n`; return the lane of the fork."""
    made = structs.replace(of, conversation=name or f"fork-{n}")
    point = ForkPoint(kind="batch", at=str(n))
    fork_conversation(conversation.ports, of, point, user=USER, conversation=made.conversation)
    return made


def replayed(conversation: Conversation, lane: Lane, **choices: Any) -> list[TurnReport]:
    artifacts = conversation.ports.artifacts
    turns = find_turns(lane, load_record(conversation.log, artifacts, lane))
    return list(replay_turns(turns, replayer(conversation, **choices), artifacts))


def two_turns() -> Conversation:
    conversation = Conversation(called("react.read", {"paths": ["fi:x"]}), answered("One."), answered("Two."))
    for name in ("m1", "m2"):
        conversation.send("what is new?", id=name)
        conversation.run()
    return conversation


@pytest.mark.parametrize("kind", KINDS)
def test_forks_at_any_batch_replay_equal_with_the_turn_that_they_ended(kind: Any) -> None:
    rng = Random(7)
    conversation = kind(rng)
    last = conversation.tail.n
    for n in sorted(rng.sample(range(2, last + 1), min(budget(4, 40), last - 1))):
        reports = replayed(conversation, fork(conversation, n))
        assert [(n, report.where) for report in reports if report.outcome != "equal"] == []


def test_a_turn_of_the_fork_itself_replays_equal() -> None:
    conversation = two_turns()
    lane = fork(conversation, conversation.tail.n - 1)
    conversation.model.add(called("react.read", {"paths": ["fi:x"]}), answered("Three."))  # type: ignore[attr-defined]  # the memory twin
    conversation.send("and then?", id="m3", lane=lane)
    conversation.run()
    assert [report.outcome for report in replayed(conversation, lane)] == ["equal"] * 3


def test_a_changed_prompt_is_compared_with_the_one_that_the_origin_stored() -> None:
    conversation = two_turns()
    lane = fork(conversation, 2, of=fork(conversation, 4), name="deep")
    conversation.agent = replace(conversation.agent, system=f"{conversation.agent.system} Be brief.")
    (report,) = replayed(conversation, lane)
    assert "round 0: another request, first in system at character" in report.where
