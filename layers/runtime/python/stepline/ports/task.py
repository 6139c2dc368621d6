"""Tasks: runs in containers of their own, with a handover by secret and a task token.

`Tasks` is used by the side that starts and sweeps tasks, `TaskToken` by the task itself; `Grants` issues rights to
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
    """A handover that was not taken back in time. `cluster` is where its task may still run."""

    ref: str
    cluster: str


class Tasks(Protocol):
    def hand_over(self, ref: str, text: str, *, cluster: str, deadline: str) -> str:
        """Store `text` as a secret and return its name; an existing one is not changed.

        Its row is written first, so that the sweeper finds it after `deadline`, an ISO time. Raises
        InputError `payload_too_large`, DependencyError.
        """

    def start(self, launch: TaskLaunch, token: str, attempt: int) -> None:
        """Start the task of a run, which reports to the state with `token`.

        The same try, sent twice, starts one task. Raises DependencyError: none was started for now, by a
        throttle, a failure of the service, or no capacity; SteplineError: it never will be.
        """

    def take_back(self, ref: str) -> None:
        """Delete the secret permanently, and then its row; do nothing if they are gone.

        Raises DependencyError.

        Before its deadline the row of a handover that another caller has not finished is kept.
        """

    def give_up(self, ref: str) -> None:
        """Delete the secret, and mark its row to be swept now: a task may still run. Raises DependencyError."""

    def stale(self, *, before: str) -> Iterator[Stale]:
        """Yield the handovers that should have been taken back before an ISO time."""

    def stop(self, ref: str, cluster: str, reason: str) -> int:
        """Stop the running tasks of a run, and return their number. Raises DependencyError."""

    def cluster(self, ref: str) -> str:
        """Return the cluster of the tasks of a run that is handed over, "" if it is not.

        Raises DependencyError.

        A strong read.
        """

    def running(self, ref: str, cluster: str) -> tuple[str, ...]:
        """Return the running or starting tasks of a run; the newest may be missing. Raises DependencyError."""

    def overrides(self, task: str, cluster: str) -> dict[str, str]:
        """Return the variables with which a running or just stopped task was started; none if it is unknown."""

    def fail(self, token: str, error: str, cause: str) -> bool:
        """End the waiting state with an error; return False if no state waits. Raises DependencyError."""


class TaskToken(Protocol):
    """The task's side: its handover, and the state that waits for it."""

    def take(self, secret: str) -> str:
        """Return the text of a handover and delete it. Raises NotFoundError, DependencyError."""

    def beat(self, token: str) -> bool:
        """Send a heartbeat; return False if no state waits. Raises DependencyError."""

    def end(self, token: str) -> bool:
        """Report the task's end; return False if no state waits. Raises DependencyError."""


class Grants(Protocol):
    """Rights to single objects of the artifact store, for `ttl_s` seconds."""

    def read(self, key: str, *, ttl_s: int) -> ObjectGrant:
        """Return the right to get an object, which need not exist."""

    def serve(self, key: str, form: ServedForm, *, ttl_s: int) -> ObjectGrant:
        """Return the right to get an object in this form, whatever it was stored as; no cache may keep it."""

    def write(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        """Return the right to put an object if none has that key."""

    def rewrite(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        """Return the right to put an object again and again, each in the place of the one before."""


class GrantedObjects(Protocol):
    """The artifact store for a holder of grants."""

    def get(self, grant: ObjectGrant) -> bytes:
        """Return the object's bytes. Raises NotFoundError, DependencyError."""

    def put(self, grant: ObjectGrant, body: bytes | Path) -> bool:
        """Put bytes, or a file's; return True if this call wrote the object. Raises DependencyError."""
