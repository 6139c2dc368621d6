"""An executor without a sandbox: a function returns the result of each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stepline.model.program.execution import Run
from stepline.ports.executor import Job

BACKEND: Final = "process"


class MemoryExecutor:
    """Calls `run` for every job that is not cancelled, and stores those jobs."""

    def __init__(self, run: Callable[[Job], Run]) -> None:
        self.jobs: list[Job] = []
        self._run = run

    @property
    def backend(self) -> str:
        return BACKEND

    def run(self, job: Job) -> Run:
        if job.cancel.requested:
            return Run(error="cancelled", message="the program did not begin")
        self.jobs.append(job)
        return self._run(job)

    def close(self) -> None:
        """Do nothing: there is no warm process."""
