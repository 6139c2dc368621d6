"""Attempts whose premise a backend does not have: what comes of them there, and why that is no way out.

They are made all the same. A wall that appears later makes them fail here, and their rows go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.contract.task_containers import TaskExecutor
from tests.security.escape import single_attempt as scenes
from tests.security.escape.single_attempt import Secrets

from .backend import Backend


@dataclass(frozen=True)
class Drift:
    """`outcomes` of an attempt of the table, or the `attempt` that takes another's place."""

    reason: str
    outcomes: tuple[Any, ...] = ()
    attempt: Callable[[Backend, Secrets], None] | None = None


def processes_that_count_together(backend: Backend, secrets: Secrets) -> None:
    """more processes of the same user id elsewhere on the machine, which count as the run's own"""
    outcome = scenes.run_among_others(backend)
    assert outcome.run.error == "nonzero_exit", outcome.run
    assert "Resource temporarily unavailable" in outcome.run.program_log, outcome.run


def in_a_small_task(attempt: Callable[[Backend, Secrets], None]) -> Callable[[Backend, Secrets], None]:
    """Return a attempt that plays where a program's container has as much memory as the attempt's runs may use."""

    def played(backend: Backend, secrets: Secrets) -> None:
        executor = backend.executor
        assert isinstance(executor, TaskExecutor)
        defined, memory = executor.definition, str(scenes.SMALL.memory_bytes)
        arguments = (*defined.executor.arguments, "--memory", memory, "--memory-swap", memory)
        executor.definition = replace(defined, executor=replace(defined.executor, arguments=arguments))
        try:
            attempt(backend, secrets)
        finally:
            executor.definition = defined

    return played


_MEMORY = "a task's memory is what its definition says, whatever the limit of the run"

DRIFTS: Mapping[str, Mapping[str, Drift]] = {
    "fargate": {
        "executing a file that it wrote": Drift(
            "a task's volumes are mounted as they are, noexec is none of their options; what is executed is in the "
            "same jail as who executes it",
            outcomes=("ran\n",),
        ),
        str(scenes.processes_of_others.__doc__): Drift(
            "no option limits the processes of a task's container, so the kernel counts those of the account; the "
            "machine is the task's alone there, and here it is not",
            attempt=processes_that_count_together,
        ),
        **{
            str(attempt.__doc__): Drift(_MEMORY, attempt=in_a_small_task(attempt))
            for attempt in (scenes.memory_in_nobodys_size, scenes.memory_in_buffers)
        },
    }
}


def find_drift(backend: str, name: str) -> Drift | None:
    """Return what is otherwise about an attempt on a backend, None if nothing is.

    A host that refuses some calls, named after a comma, has no drift of its own: another wall stops each attempt.
    """
    return DRIFTS.get(backend.partition(",")[0], {}).get(name)
