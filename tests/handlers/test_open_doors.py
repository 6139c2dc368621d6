"""Ten executions for all functions: users can still connect, steer and stop while the maximum of turns stream.

The limit of open turns is that of an account with ten executions; without it the same users are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stepline.adapters.memory.log import MemoryLog
from stepline.model.entry import Closed, Inbound, SteeredEntry
from stepline.model.ids import Lane
from stepline.model.tenancy.concurrency import divide
from stepline.model.wire.event import AckFrame, SyncFrame
from tests.handlers.conftest import LambdaRuntime
from tests.handlers.function_pool import EXECUTIONS, CrowdedStage, FunctionPool, ThrottledError
from tests.support.issuer import Issuer, running_issuer

BOUND = divide(EXECUTIONS).open_turns
CROWD = [f"u{number:02}" for number in range(EXECUTIONS + 2)]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as found:
        yield found


class Scene:
    """A stage on which every user has sent a message, and the maximum of turns stream."""

    def __init__(self, runtime: LambdaRuntime, issuer: Issuer, open_turns: int) -> None:
        runtime.wire(
            STEPLINE_OIDC_ISSUER=issuer.url,
            STEPLINE_ALLOWED_ORIGINS="https://app.example",
            STEPLINE_OPEN_TURNS=str(open_turns),
        )
        self.log: Any = runtime.app.ports.log
        self.pool = FunctionPool()
        self.stage = CrowdedStage(runtime, self.pool)
        self.issuer = issuer
        for user in CROWD:
            self.enter(user)
        for user in CROWD:
            self.say(user, "m1", action="send", text="hello")
        self.stage.start()

    def enter(self, user: str) -> None:
        self.stage.enter(user, self.issuer.token(sub=user, exp=4_000_000_000))

    def entries(self, user: str, kind: type[Any]) -> list[Any]:
        lane = Lane(tenant="acme", project="support", conversation=f"c-{user}")
        batches = MemoryLog.since(self.log, lane, 0)
        return [entry for batch in batches for entry in batch.entries if isinstance(entry, kind)]

    # --- requests of users meanwhile

    def steer(self) -> None:
        self.say(CROWD[0], "m2", action="event", kind="steer", payload={"text": "be brief"})

    def stop(self) -> None:
        self.say(CROWD[1], "m2", action="event", kind="stop")

    def come_in(self) -> None:
        self.enter("eve")
        self.say("eve", "m1", action="send", text="hello")

    def say(self, user: str, message_id: str, **message: Any) -> None:
        """Send a message that is accepted."""
        frames = self.stage.send(user, message_id=message_id, **message)
        assert [frame.message_id for frame in frames if isinstance(frame, AckFrame)] == [message_id]


MEANWHILE: dict[str, Callable[[Scene], None]] = {
    "a steer": Scene.steer,
    "a stop": Scene.stop,
    "a second user": Scene.come_in,
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_other_requests_are_served_while_every_stream_slot_is_in_use(
    runtime: LambdaRuntime, issuer: Issuer, what: str
) -> None:
    scene = Scene(runtime, issuer, BOUND)
    assert len(scene.stage.streams) == BOUND
    MEANWHILE[what](scene)


@pytest.mark.parametrize("what", MEANWHILE)
def test_the_same_users_are_refused_without_the_limit(
    runtime: LambdaRuntime, issuer: Issuer, what: str
) -> None:
    scene = Scene(runtime, issuer, 0)
    assert len(scene.stage.streams) == EXECUTIONS
    with pytest.raises(ThrottledError):
        MEANWHILE[what](scene)


def test_every_queued_user_is_answered_and_at_most_the_limit_of_turns_stream(
    runtime: LambdaRuntime, issuer: Issuer
) -> None:
    scene = Scene(runtime, issuer, BOUND)
    for act in MEANWHILE.values():
        act(scene)
    while scene.stage.streams:
        assert len(scene.stage.streams) <= BOUND
        scene.stage.answer(next(iter(scene.stage.streams))[2:])
    for user in (*CROWD, "eve"):
        (closed,) = scene.entries(user, Closed)
        assert closed.outcome == "completed", user
        assert len(scene.entries(user, Inbound)) == 1 + (user in CROWD[:2])
        assert len(scene.entries(user, SteeredEntry)) == (user in CROWD[:2])
    assert scene.pool.most < EXECUTIONS


def test_a_queued_user_sees_the_position_and_moves_up(runtime: LambdaRuntime, issuer: Issuer) -> None:
    scene = Scene(runtime, issuer, BOUND)
    last = CROWD[-1]

    def place() -> int:
        frames = scene.stage.send(last, action="resume")
        return next(frame.place for frame in frames if isinstance(frame, SyncFrame))

    assert place() == len(CROWD) - BOUND
    scene.stage.answer(CROWD[0])
    assert place() == len(CROWD) - BOUND - 1
