"""Tasks: runs in containers of their own, handed over by a secret, heard of by a token.

`Tasks` is the side that asks and sweeps, `Duty` the side of the task itself; `Grants` gives rights to single
objects, `Depot` uses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from stepline.model.base import Value
from stepline.model.program.handover import Grant


class Stale(Value):
    """A handover that nobody took back in time. `cluster` is where its task may still run."""

    ref: str
    cluster: str


class Tasks(Protocol):
    def hand_over(self, ref: str, text: str, *, cluster: str, deadline: str) -> str:
        """Keep `text` as a secret and return its name; one that is there stays as it is.

        A row that says so is written before, so that whoever sweeps finds it after `deadline`, an ISO time.
        Raises InputError `payload_too_large`, DependencyError.
        """
        ...

    def take_back(self, ref: str) -> None:
        """Delete the secret for good, and then its row; nothing to do if they are gone. Raises DependencyError.

        Before its deadline the row of a handover that somebody is in the middle of stays.
        """
        ...

    def give_up(self, ref: str) -> None:
        """Delete the secret, and keep its row as one to be swept now: a task may still run. Raises DependencyError."""
        ...

    def stale(self, *, before: str) -> Iterator[Stale]:
        """Yield what should have been taken back before an ISO time."""
        ...

    def stop(self, ref: str, cluster: str, reason: str) -> int:
        """Stop the tasks of a run that still run, and return how many there were. Raises DependencyError."""
        ...

    def cluster(self, ref: str) -> str:
        """Return where the tasks of a run may be that is handed over; nothing if it is not. Raises DependencyError.

        The answer is no older than the question.
        """
        ...

    def running(self, ref: str, cluster: str) -> tuple[str, ...]:
        """Return the tasks of a run that run or are about to; the newest may be missing. Raises DependencyError."""
        ...

    def overrides(self, task: str, cluster: str) -> dict[str, str]:
        """Return the variables that a task, running or just stopped, was started with; none if it is forgotten."""
        ...

    def fail(self, token: str, error: str, cause: str) -> bool:
        """End the waiting state with an error; false if nobody waits any more. Raises DependencyError."""
        ...


class Duty(Protocol):
    """What a task owes to the state that waits for it."""

    def take(self, secret: str) -> str:
        """Return the text of a handover and delete it. Raises NotFoundError, DependencyError."""
        ...

    def beat(self, token: str) -> bool:
        """Say that the task lives; false if nobody waits any more. Raises DependencyError."""
        ...

    def end(self, token: str) -> bool:
        """Say that the task has done what it could; false if nobody waits any more. Raises DependencyError."""
        ...


class Grants(Protocol):
    """Rights to single objects of the artifact store, for `ttl_s` seconds."""

    def read(self, key: str, *, ttl_s: int) -> Grant:
        """Return the right to get an object; nothing tells whether it exists."""
        ...

    def write(self, key: str, *, mime: str, ttl_s: int) -> Grant:
        """Return the right to put an object if none has that key."""
        ...


class Depot(Protocol):
    """The artifact store as a holder of grants sees it."""

    def get(self, grant: Grant) -> bytes:
        """Return the object's bytes. Raises NotFoundError, DependencyError."""
        ...

    def put(self, grant: Grant, body: bytes | Path) -> bool:
        """Put bytes, or a file's; tell whether this call wrote the object. Raises DependencyError."""
        ...
