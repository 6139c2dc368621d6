"""Parallel posts: no connection waits for another's post, and each has its own outcome."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from stepline.adapters.parallel import THREADS, ParallelPosts, at_once
from stepline.errors import SteplineError

WAIT_S = 60


def test_each_thread_posts_to_a_connection_at_the_same_time() -> None:
    together = threading.Barrier(THREADS)

    def post(_connection: str, _frames: Sequence[bytes]) -> Sequence[bytes]:
        together.wait(WAIT_S)
        return ()

    posts = ParallelPosts()
    names = [f"c{number}" for number in range(THREADS * 2)]
    assert posts(post, dict.fromkeys(names, (b"1",))) == dict.fromkeys(names, ())


def test_each_connection_has_its_own_outcome() -> None:
    outcomes = {"well": (), "slow": (b"2",), "gone": None}
    waiting = dict.fromkeys(outcomes, (b"1", b"2"))
    assert ParallelPosts()(lambda connection, _: outcomes[connection], waiting) == outcomes


def test_one_connection_is_posted_to_without_a_thread() -> None:
    caller = threading.get_ident()

    def post(_connection: str, frames: Sequence[bytes]) -> Sequence[bytes]:
        assert threading.get_ident() == caller
        return frames

    assert ParallelPosts()(post, {"c1": (b"1",)}) == {"c1": (b"1",)}
    assert ParallelPosts()(post, {}) == {}


def test_an_unrelated_failure_is_raised_after_all_connections_got_their_frames() -> None:
    posted = []

    def post(connection: str, _frames: Sequence[bytes]) -> Sequence[bytes]:
        if connection == "a":
            raise SteplineError("a right is missing")
        posted.append(connection)
        return ()

    posts = ParallelPosts(threads=1)
    with pytest.raises(SteplineError):
        posts(post, dict.fromkeys("abc", (b"1",)))
    posts(post, dict.fromkeys("de", (b"1",)))
    assert sorted(posted) == ["b", "c", "d", "e"]


def test_a_failure_is_raised_after_all_posts_have_ended() -> None:
    failed, ended = threading.Event(), []

    def post(connection: str, _frames: Sequence[bytes]) -> Sequence[bytes]:
        if connection == "a":
            failed.set()
            raise SteplineError("a right is missing")
        failed.wait(WAIT_S)
        ended.append(connection)
        return ()

    names = [f"c{number}" for number in range(200)]
    with pytest.raises(SteplineError):
        ParallelPosts()(post, dict.fromkeys(["a", *names], (b"1",)))
    assert sorted(ended) == sorted(names)


def test_calls_run_in_parallel_and_their_results_are_in_order() -> None:
    together = threading.Barrier(THREADS)

    def double(number: int) -> int:
        together.wait(WAIT_S)
        return 2 * number

    assert at_once(double, range(THREADS * 2)) == [2 * number for number in range(THREADS * 2)]


def test_the_error_of_one_call_is_raised_after_all_calls() -> None:
    tried = []

    def fail(number: int) -> None:
        tried.append(number)
        if number == 0:
            raise SteplineError("one of them")

    with pytest.raises(SteplineError):
        at_once(fail, range(THREADS * 2))
    assert sorted(tried) == list(range(THREADS * 2))
