from __future__ import annotations

import select
import threading

import pytest

from exec_task.caller import HungUp
from exec_task.heartbeat import Heartbeat
from stepline.errors import DependencyError, SandboxError

PATIENCE_S = 60.0


class Waiting:
    """A state that answers each heartbeat with the next of these, then always with the last."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.heard = threading.Semaphore(0)

    def beat(self, token):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.heard.release()
        if isinstance(answer, Exception):
            raise answer
        return answer


def rings(heartbeat):
    return bool(select.select([heartbeat.source], [], [], PATIENCE_S)[0])


def test_heartbeats_start_immediately_and_continue():
    state = Waiting(True)
    with Heartbeat(state, "token", interval_s=0.001) as heartbeat:
        assert all(state.heard.acquire(timeout=PATIENCE_S) for _ in range(3))
        heartbeat.check()


@pytest.mark.parametrize("error", [DependencyError("lost"), RuntimeError("broken")])
def test_a_heartbeat_that_fails_is_followed_by_the_next(error):
    state = Waiting(error, True)
    with Heartbeat(state, "token", interval_s=0.001) as heartbeat:
        assert all(state.heard.acquire(timeout=PATIENCE_S) for _ in range(2))
        assert not heartbeat.deserted


def test_an_abandoned_task_is_signalled_and_stays_abandoned():
    with Heartbeat(Waiting(True, False), "token", interval_s=0.001) as heartbeat:
        assert rings(heartbeat)
        with pytest.raises(HungUp):
            heartbeat.hear()
        with pytest.raises(HungUp):
            heartbeat.check()


def test_a_stopped_task_is_signalled_once_and_starts_nothing_more():
    with Heartbeat(Waiting(True), "token", interval_s=60) as heartbeat:
        heartbeat.stop()
        assert rings(heartbeat)
        assert heartbeat.hear() == "task_stopped"
        assert not select.select([heartbeat.source], [], [], 0)[0]
        with pytest.raises(SandboxError) as caught:
            heartbeat.check()
    assert caught.value.reason == "task_stopped"
