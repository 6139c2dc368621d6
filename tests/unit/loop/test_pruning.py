"""Pruning by time and by price, in the loop: a separate batch under the round's claim, before the request that shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepline.adapters.memory.model import Fail
from stepline.context.pruning import find_saving
from stepline.context.rules import ContextRules
from stepline.errors import Fenced, ModelTimeout
from stepline.log.journal import Journal
from stepline.model.entry import Opened, Pruned, Resulted
from stepline.rendering.piece import text_bytes
from stepline.rendering.reduce import prune
from stepline.rendering.request_parts import first_change
from tests.support.conversation import LANE, Conversation, text_of
from tests.support.faulty_log import BusyLog
from tests.support.generation import answered, called

LONG = "and so it goes on, word by word. " * 100
BUSY = Fail(error=ModelTimeout("busy"))
WRITE = called("react.write", {"path": "a.md", "channel": "canvas", "content": LONG})


def read(turn: str) -> str:
    return called("react.read", {"paths": [f"fi:{turn}.outputs/a.md"]})


class Old(Conversation):
    """A conversation whose first turn read a long file, with one more turn after it and a third one to come."""

    def __init__(self, *script: Any, **policy: Any) -> None:
        super().__init__(WRITE, **policy)
        self.send("first", id="m0")
        self.first = self.state.turn
        self.model.add(read(self.first), answered("one"), answered("two"), *script)
        self.run()
        self.send("second", id="m1")
        self.run()

    def go_on(self, *, after_s: float) -> None:
        """Run another turn after a pause."""
        self.clock.pause(after_s)
        self.send("third", id="m2")
        self.run()

    def prompt(self, index: int = -1) -> str:
        return text_of(self.model.requests[index])


def test_a_pause_shortens_old_results_and_all_stay_readable() -> None:
    conversation = Old(answered("three"))
    conversation.go_on(after_s=1000)
    (entry,) = conversation.entries(Pruned)
    assert (entry.cause, entry.turn) == ("ttl", conversation.entries(Opened)[-1].turn)
    assert (LONG[:300] in conversation.prompt(-2), LONG[:300] in conversation.prompt()) == (True, False)
    assert f"fi:{conversation.first}.outputs/a.md" in conversation.prompt()
    assert "[SYSTEM MESSAGE]" in conversation.prompt()


def test_while_the_cache_may_live_nothing_is_shorter() -> None:
    conversation = Old(answered("three"))
    conversation.go_on(after_s=200)
    assert conversation.entries(Pruned) == []
    assert LONG[:300] in conversation.prompt()


def grown(**rules: Any) -> ContextRules:
    """Return rules by which a conversation of some thousand characters is large."""
    return ContextRules(**{"horizon_from": 0.01, **rules})


def test_pruning_that_pays_back_soon_ignores_a_live_cache() -> None:
    conversation = Old(answered("three"), context=grown(horizon_requests=30))
    conversation.go_on(after_s=200)
    (entry,) = conversation.entries(Pruned)
    assert (entry.cause, entry.turn) == ("price", conversation.entries(Opened)[-1].turn)
    assert entry.after_tokens < entry.before_tokens
    assert LONG[:300] not in conversation.prompt()


@pytest.mark.parametrize(
    "rules",
    [
        grown(horizon_requests=0),
        grown(horizon_requests=0.1),
        grown(horizon_requests=30, horizon_from=0.9),
    ],
)
def test_pruning_that_does_not_pay_back_is_skipped(rules: ContextRules) -> None:
    conversation = Old(answered("three"), context=rules)
    conversation.go_on(after_s=200)
    assert conversation.entries(Pruned) == []
    assert LONG[:300] in conversation.prompt()


def test_while_a_turn_is_open_nothing_is_pruned_for_its_price() -> None:
    conversation = Old(
        called("react.read", {"paths": ["ar:plan.latest:none"]}), context=grown(horizon_requests=0)
    )
    conversation.send("third", id="m2")
    conversation.decide()
    conversation.act()
    conversation.ports = replace(
        conversation.ports, policy=replace(conversation.ports.policy, context=grown(horizon_requests=30))
    )
    conversation.model.add(answered("three"))
    conversation.run()
    assert conversation.entries(Pruned) == []


def test_pruning_pays_from_the_break_even_number_of_requests_on() -> None:
    conversation = Old()
    conversation.send("third", id="m2")
    timeline = conversation.history.load(Journal(conversation.ports, LANE, "test"))
    entry = Pruned(turn=timeline.state.turn, at="2026-01-01T00:00:00Z", cause="price", keep=6, intact=2)
    new = prune(timeline.pieces, entry, 3, timeline.form)
    notice = len(timeline.form.pruned(entry).encode())
    same = first_change(timeline.pieces, new)
    after, before = text_bytes(new[same:]) + notice, text_bytes(timeline.pieces[same:])
    enough = (1.25 - 0.1) * after / (0.1 * (before - after))
    assert find_saving(timeline, entry, enough * 0.99) < 0 < find_saving(timeline, entry, enough * 1.01)


def test_without_a_time_to_live_nothing_is_pruned_by_time() -> None:
    conversation = Old(answered("three"), context=ContextRules(ttl_s=0))
    conversation.go_on(after_s=100_000)
    assert conversation.entries(Pruned) == []


def test_pruned_content_is_shown_once_when_it_is_read_again() -> None:
    conversation = Old()
    conversation.clock.pause(1000)
    conversation.send("third", id="m2")
    conversation.model.add(read(conversation.first), read(conversation.first), answered("three"))
    conversation.run()
    again, repeated = [entry for entry in conversation.entries(Resulted) if entry.tool_id == "react.read"][
        -2:
    ]
    assert [block.text for block in again.blocks if block.meta.get("whole")] == [LONG]
    assert '"exists_in_visible_context"' in repeated.blocks[0].text
    assert len(conversation.entries(Pruned)) == 1


def test_a_failed_attempts_pruning_is_not_repeated() -> None:
    conversation = Old(*[BUSY] * 3, answered("three"))
    conversation.clock.pause(1000)
    conversation.send("third", id="m2")
    with pytest.raises(ModelTimeout):
        conversation.decide()
    conversation.decide(attempt=1)
    assert len(conversation.entries(Pruned)) == 1
    assert conversation.state.cursor.phase == "close"


def test_an_attempt_that_lost_the_round_prunes_nothing() -> None:
    log = BusyLog()
    conversation = Old(*[BUSY] * 3, log=log)
    conversation.clock.pause(1000)
    conversation.send("third", id="m2")
    step = conversation.now()

    def retry() -> None:
        with pytest.raises(ModelTimeout):
            conversation.decide(conversation.now(attempt=1))

    log.rivals = [retry]
    with pytest.raises(Fenced):
        conversation.decide(step)
    assert len(conversation.entries(Pruned)) == 1
