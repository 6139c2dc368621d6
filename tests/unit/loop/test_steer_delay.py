"""A steer that arrives while no function runs: how long the turn takes to apply it, on the simulated clock.

A running function reads the log every few hundred milliseconds. A turn that waits in the state machine, for a provider or
for the task of a call, is not running, so Decide looks for a steer meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.adapters.memory.model import Fail
from stepline.errors import ModelOverloaded, SteplineError
from stepline.loop.graph import TASKS
from stepline.model.entry import Closed, SteeredEntry
from tests.support.budget import budget
from tests.support.conversation import Conversation
from tests.support.generation import answered, called
from tests.unit.loop.test_remote_task import Crm
from tests.unit.loop.test_turn_tools import (
    RemoteConversation,
    bundle,  # noqa: F401 - a fixture
)

pytestmark = pytest.mark.usefixtures("bundle")

SOON_S = 5
"""The seconds within which a waiting turn applies a steer."""
KINDS = {"stop": "", "steer": "short, please"}


def limited(wait_s: float | None) -> Conversation:
    """Return a conversation whose provider asks for a wait."""
    busy: list[SteplineError] = [ModelOverloaded("later, please", retry_after_s=wait_s)]
    return Conversation(*[Fail(error=busy[0])] * 3, answered("Short."))


def worked_on(poll_s: float | None) -> Conversation:
    """Return a conversation whose call is a task that never ends."""
    crm = Crm(10**9, **({"poll_s": poll_s} if poll_s else {}))
    return RemoteConversation(called("mcp.crm.add", {}), answered("Short."), crm=crm.server)


def steered_in_a_wait(conversation: Conversation, kind: str, *, after_s: float) -> tuple[float, int]:
    """Steer `after_s` seconds into the waits of a turn; return the seconds until it was applied, and the looks before it."""
    conversation.send("what is new?", id="m1")
    clock, machine = conversation.clock, conversation.machine
    begun_s: float | None = None
    sent_at = ""
    looks = 0

    def wait(seconds: float) -> None:
        nonlocal begun_s, sent_at, looks
        now_s = clock.monotonic_s()
        begun_s = now_s if begun_s is None else begun_s
        left_s = begun_s + after_s - now_s
        if sent_at or left_s > seconds:
            looks += not sent_at
            pause(seconds)
            return
        pause(max(0.0, left_s))
        sent_at = clock.now().isoformat()
        conversation.send(KINDS[kind], id="s1", kind="steer")
        pause(seconds - max(0.0, left_s))

    pause: Callable[[float], None] = clock.pause
    clock.pause = wait
    try:
        while machine.queue and not conversation.entries(Closed):
            _, step = conversation.take()
            conversation.drive(step)
    finally:
        clock.pause = pause
    (entry,) = conversation.entries(SteeredEntry)
    took = datetime.fromisoformat(entry.at) - datetime.fromisoformat(sent_at)
    return took.total_seconds(), looks


waits = st.floats(1.0, 900.0)
moments = st.floats(0.0, 1.0, exclude_max=True)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=budget(15, 300), deadline=None)
@given(wait_s=waits, moment=moments)
def test_a_steer_in_a_wait_for_the_provider_is_applied_at_the_next_look(
    kind: str, wait_s: float, moment: float
) -> None:
    after_s = wait_s * moment
    took_s, looks = steered_in_a_wait(limited(wait_s), kind, after_s=after_s)
    assert took_s <= SOON_S
    assert looks <= after_s / SOON_S + 1


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=budget(15, 300), deadline=None)
@given(poll_s=st.none() | st.floats(0.5, 900.0), after_s=st.floats(0.0, 600.0))
def test_a_steer_in_a_wait_for_a_task_is_applied_at_the_next_look(
    kind: str, poll_s: float | None, after_s: float
) -> None:
    took_s, _ = steered_in_a_wait(worked_on(poll_s), kind, after_s=after_s)
    assert took_s <= SOON_S


def test_a_retry_of_a_function_waits_at_most_twenty_seconds() -> None:
    """The state machine reads no log between two attempts: this bounds the delay of a steer after a failure."""
    rules = [rule for task in TASKS for rule in task.retries]
    assert max(min(rule.max_s, rule.interval_s * 2 ** (rule.tries - 1)) for rule in rules) == 20
