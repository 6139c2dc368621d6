"""A burst of calls at the emulator: few processes start at a time, and a waiting call uses the first idle one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from stepline.local.stage.cold_start import Turnstile, is_starting

BURST = 12
WAIT_S = 60


class Pool:
    """Processes of one function, as the emulator keeps them; a test decides when one is ready."""

    def __init__(self, at_once, at_most=BURST):
        self.turnstile = Turnstile(at_once, self.starting, at_most)
        self.workers, self.most, self.reused = [], 0, 0
        self.taken = threading.Semaphore(0)

    def starting(self):
        return sum(is_starting(worker) for worker in self.workers)

    def call(self):
        worker = self.turnstile.enter(
            lambda: (len(self.workers), all(one.in_use for one in self.workers)), self._take
        )
        self.taken.release()
        return worker

    def settle(self, worker):
        worker._init_settled.set()
        self.turnstile.wake()

    def release(self, worker):
        worker.in_use = False
        self.turnstile.wake()

    def _take(self):
        idle = next((worker for worker in self.workers if not worker.in_use), None)
        if idle:
            self.reused += 1
            idle.in_use = True
            return idle
        worker = SimpleNamespace(in_use=True, _init_settled=threading.Event())
        self.workers.append(worker)
        self.most = max(self.most, self.starting())
        return worker


@pytest.mark.parametrize("at_once", [1, 3])
def test_of_a_burst_no_more_processes_start_at_a_time_than_may(at_once):
    pool = Pool(at_once)
    with ThreadPoolExecutor(BURST) as threads:
        calls = [threads.submit(pool.call) for _ in range(BURST)]
        for _ in range(BURST):
            pool.taken.acquire()
            pool.settle(next(worker for worker in pool.workers if is_starting(worker)))
        for call in calls:
            call.result()
    assert pool.most == at_once
    assert len(pool.workers) == BURST


def test_a_call_waiting_for_a_start_uses_a_process_that_became_idle():
    pool = Pool(1)
    first = pool.call()
    pool.settle(first)
    still_starting = pool.call()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pool.call)
        pool.release(first)
        try:
            assert waiting.result(WAIT_S) is first
            assert is_starting(still_starting)
        finally:
            pool.settle(still_starting)
    assert pool.reused == 1


def test_a_process_that_is_gone_lets_another_start():
    pool = Pool(1)
    pool.call()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(pool.call)
        pool.workers.clear()
        pool.turnstile.wake()
        assert waiting.result() in pool.workers


def test_only_a_process_in_use_that_is_not_ready_counts_as_starting():
    up, not_up = threading.Event(), threading.Event()
    up.set()
    assert is_starting(SimpleNamespace(in_use=True, _init_settled=not_up))
    assert not is_starting(SimpleNamespace(in_use=False, _init_settled=not_up))
    assert not is_starting(SimpleNamespace(in_use=True, _init_settled=up))
    assert not is_starting(SimpleNamespace(in_use=True))


def test_a_burst_beyond_the_processes_of_a_function_uses_them_again():
    pool = Pool(at_once=BURST, at_most=2)
    with ThreadPoolExecutor(BURST) as threads:
        calls = [threads.submit(pool.call) for _ in range(BURST)]
        for _ in range(BURST):
            pool.taken.acquire()
            worker = next(one for one in pool.workers if one.in_use)
            worker._init_settled.set()
            pool.release(worker)
        for call in calls:
            call.result(WAIT_S)
    assert len(pool.workers) == 2
    assert pool.reused == BURST - 2
