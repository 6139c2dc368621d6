"""Runs work that waits for the network in parallel: posts to connections (10 to 30 ms each), and lanes of a sweep."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import ThreadPoolExecutor

    from stepline.delivery.posting import PendingFrames, PostOne, UnsentFrames

THREADS: Final = 8
"""Fewer than the connections that an AWS client keeps open."""

T = TypeVar("T")
R = TypeVar("R")


def at_once(do: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """Call `do` for each, a few at a time; return the results in order. The first error is raised after all calls."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only the sweeper uses it

    with ThreadPoolExecutor(THREADS, thread_name_prefix="lane") as pool:
        begun = [pool.submit(do, thing) for thing in things]
    return [one.result() for one in begun]


class ParallelPosts:
    """A `PostAll` with its own threads, used from the second connection on."""

    def __init__(self, threads: int = THREADS) -> None:
        """Use at most `threads` threads; none is started yet."""
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._lock = Lock()

    def __call__(self, post: PostOne, waiting: PendingFrames) -> dict[str, UnsentFrames]:
        """Post to each connection; an error unrelated to a connection is raised after all posts."""
        if len(waiting) < 2:
            return {connection: post(connection, frames) for connection, frames in waiting.items()}
        from concurrent.futures import wait  # noqa: PLC0415 - most conversations have one listener

        pool = self._executor()
        posted = {connection: pool.submit(post, connection, frames) for connection, frames in waiting.items()}
        wait(posted.values())  # even if one fails: no post may outlive its step
        return {connection: outcome.result() for connection, outcome in posted.items()}

    def _executor(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="post")
            return self._pool
