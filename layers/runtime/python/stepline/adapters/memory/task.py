"""Tasks in dictionaries: both sides of a handover, and the tasks themselves."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import InputError, NotFoundError, SteplineError
from stepline.model.ids import utc
from stepline.model.program.handover import (
    SECRET_MAX_BYTES,
    SECRET_VARIABLE,
    TOKEN_VARIABLE,
    TaskLaunch,
    secret_name,
)
from stepline.ports.task import Stale

STAGE: Final = "memory"


@dataclass
class _HandoverRow:
    """A handover's row: the callers that have begun, and those that are done."""

    cluster: str
    deadline: str
    begun: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


@dataclass
class MemoryTask:
    """A started task. `reason` is set if it is stopped."""

    ref: str
    cluster: str
    variables: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


class MemoryTasks:
    """Implements `Tasks` and `TaskToken`. Tests may use `secrets`, `rows`, `tasks` and `waiting`.

    Each of `refusals` is raised once instead of starting a task.
    """

    def __init__(self, clock: MemoryClock) -> None:
        self._clock = clock
        self._lock = Lock()
        self.secrets: dict[str, str] = {}
        self.rows: dict[str, _HandoverRow] = {}
        self.tasks: dict[str, MemoryTask] = {}
        self.waiting: set[str] = set()
        self.ended: dict[str, tuple[str, str]] = {}
        self.refusals: list[SteplineError] = []

    # --- Tasks

    def hand_over(self, ref: str, text: str, *, cluster: str, deadline: str) -> str:
        check_secret(text)
        me = secrets.token_hex(4)
        self.open_row(ref, me, cluster, deadline)
        self.keep_secret(ref, text)
        self.close_row(ref, me)
        return secret_name(STAGE, ref)

    def start(self, launch: TaskLaunch, token: str, attempt: int) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        variables = {TOKEN_VARIABLE: token, SECRET_VARIABLE: launch.secret}
        name = f"task-{launch.client_token}-{attempt}"
        self.tasks.setdefault(name, MemoryTask(ref=launch.ref, cluster=launch.cluster, variables=variables))

    def take_back(self, ref: str) -> None:
        seen = self.look(ref)
        self.drop_secret(ref)
        self.drop_row(ref, seen)

    def give_up(self, ref: str) -> None:
        seen = self.look(ref)
        self.drop_secret(ref)
        self.age_row(ref, seen)

    # --- the steps of a handover and of its end, each one service call

    def open_row(self, ref: str, by: str, cluster: str, deadline: str) -> None:
        with self._lock:
            row = self.rows.setdefault(ref, _HandoverRow(cluster, deadline))
            row.cluster, row.deadline = cluster, deadline
            row.begun.add(by)

    def keep_secret(self, ref: str, text: str) -> None:
        self.secrets.setdefault(secret_name(STAGE, ref), text)

    def close_row(self, ref: str, by: str) -> None:
        with self._lock:
            if ref in self.rows:
                self.rows[ref].done.add(by)

    def look(self, ref: str) -> int:
        """Return the number of callers that have begun, if all of them are done; otherwise 0."""
        row = self.rows.get(ref)
        return len(row.begun) if row and row.begun <= row.done else 0

    def drop_secret(self, ref: str) -> None:
        self.secrets.pop(secret_name(STAGE, ref), None)

    def drop_row(self, ref: str, seen: int) -> None:
        with self._lock:
            row = self.rows.get(ref)
            if row and (len(row.begun) == seen or row.deadline <= self._now()):
                del self.rows[ref]

    def age_row(self, ref: str, seen: int) -> None:
        with self._lock:
            row = self.rows.get(ref)
            if row and len(row.begun) == seen:
                row.deadline = min(row.deadline, self._now())

    # --- the state of tasks

    def stale(self, *, before: str) -> Iterator[Stale]:
        with self._lock:
            late = [
                Stale(ref=ref, cluster=row.cluster)
                for ref, row in self.rows.items()
                if row.deadline <= before
            ]
        yield from late

    def stop(self, ref: str, cluster: str, reason: str) -> int:
        running = self.running(ref, cluster)
        for name in running:
            self.tasks[name].reason = reason
        return len(running)

    def cluster(self, ref: str) -> str:
        with self._lock:
            row = self.rows.get(ref)
        return row.cluster if row else ""

    def running(self, ref: str, cluster: str) -> tuple[str, ...]:
        return tuple(
            name
            for name, task in self.tasks.items()
            if (task.ref, task.cluster, task.reason) == (ref, cluster, "")
        )

    def overrides(self, task: str, cluster: str) -> dict[str, str]:
        found = self.tasks.get(task)
        return dict(found.variables) if found and found.cluster == cluster else {}

    def fail(self, token: str, error: str, cause: str) -> bool:
        return self._finish(token, error, cause)

    # --- TaskToken

    def take(self, secret: str) -> str:
        try:
            return self.secrets.pop(secret)
        except KeyError:
            raise NotFoundError("no such handover", secret=secret) from None

    def beat(self, token: str) -> bool:
        return token in self.waiting

    def end(self, token: str) -> bool:
        return self._finish(token, "", "")

    def _finish(self, token: str, error: str, cause: str) -> bool:
        with self._lock:
            if token not in self.waiting:
                return False
            self.waiting.discard(token)
            self.ended[token] = (error, cause)
            return True

    def _now(self) -> str:
        return utc(self._clock.now())


def check_secret(text: str) -> None:
    """Refuse a text too large for a secret. Raises InputError `payload_too_large`."""
    if (size_bytes := len(text.encode())) > SECRET_MAX_BYTES:
        raise InputError(
            f"a handover of {size_bytes} bytes; a secret holds {SECRET_MAX_BYTES}", code="payload_too_large"
        )
