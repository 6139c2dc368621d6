"""Tasks: runs in their own containers, with a handover by secret and a task token.

The side that starts and sweeps tasks uses `Tasks`, the task itself uses `TaskToken`. `Grants` issues rights to
single objects, `GrantedObjects` uses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepline.model.base import Value
from stepline.model.program.handover import ObjectGrant, TaskLaunch

if TYPE_CHECKING:
    from stepline.model.file.served_form import ServedForm


class Stale(Value):
    """A handover that was not taken back in time. Its task may still run in `cluster`."""

    ref: str
    cluster: str


class Tasks(Protocol):
    def hand_over(self, ref: str, text: str, *, cluster: str, deadline: str) -> str:
        """Store `text` as a secret and return its name; an existing secret is not changed.

        The row of the handover is written first, so that the sweeper finds it after `deadline`, an ISO time. Raises
        InputError `payload_too_large`, DependencyError.
        """

    def start(self, launch: TaskLaunch, token: str, attempt: int) -> None:
        """Start the task of a run, which reports to the state with `token`.

        The same attempt, sent twice, starts one task. Raises DependencyError: no task was started, because of a
        throttle, a service failure, or no capacity; SteplineError: it can never be started.
        """

    def take_back(self, ref: str) -> None:
        """Delete the secret permanently, and then its row; do nothing if they are gone.

        Raises DependencyError.

        Before its deadline, the row of a handover that another caller has not finished is kept.
        """

    def give_up(self, ref: str) -> None:
        """Delete the secret, and mark its row for an immediate sweep: a task may still run. Raises DependencyError."""

    def stale(self, *, before: str) -> Iterator[Stale]:
        """Yield the handovers that should have been taken back before an ISO time."""

    def stop(self, ref: str, cluster: str, reason: str) -> int:
        """Stop the running tasks of a run, and return their number. Raises DependencyError."""

    def cluster(self, ref: str) -> str:
        """Return the cluster of the tasks of a run, by a strong read; "" if the run is not handed over.

        Raises DependencyError.
        """

    def running(self, ref: str, cluster: str) -> tuple[str, ...]:
        """Return the running or starting tasks of a run; the newest may be missing. Raises DependencyError."""

    def overrides(self, task: str, cluster: str) -> dict[str, str]:
        """Return the variables of a running or recently stopped task; none if the task is unknown."""

    def fail(self, token: str, error: str, cause: str) -> bool:
        """End the waiting state with an error; return False if no state waits. Raises DependencyError."""


class TaskToken(Protocol):
    """The task's own port: its handover, and the state that waits for it."""

    def take(self, secret: str) -> str:
        """Return the text of a handover and delete it. Raises NotFoundError, DependencyError."""

    def beat(self, token: str) -> bool:
        """Send a heartbeat; return False if no state waits. Raises DependencyError."""

    def end(self, token: str) -> bool:
        """Report the task's end; return False if no state waits. Raises DependencyError."""


class Grants(Protocol):
    """Rights to single objects of the artifact store, for `ttl_s` seconds."""

    def read(self, key: str, *, ttl_s: int) -> ObjectGrant:
        """Return the right to get an object, which need not exist yet."""

    def serve(self, key: str, form: ServedForm, *, ttl_s: int) -> ObjectGrant:
        """Return the right to get an object in this form, regardless of its stored form; no cache may keep it."""

    def write(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        """Return the right to put an object if its key is free."""

    def rewrite(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        """Return the right to put an object repeatedly, each time replacing the previous one."""


class GrantedObjects(Protocol):
    """The artifact store for a holder of grants."""

    def get(self, grant: ObjectGrant) -> bytes:
        """Return the object's bytes. Raises NotFoundError, DependencyError."""

    def put(self, grant: ObjectGrant, body: bytes | Path) -> bool:
        """Put bytes, or a file's; return True if this call wrote the object. Raises DependencyError."""
