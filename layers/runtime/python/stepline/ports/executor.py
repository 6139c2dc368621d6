"""The executor: a place where one program of the agent runs with no authority at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stepline.model.batch import Batch
from stepline.model.program.execution import ExecRequest, Mode, Run
from stepline.ports.signal import Cancel, NeverCancelled


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to do.

    `batches` is the conversation's log up to `request.n`, whole, for the tools of the supervisor. `fetch` returns
    the bytes of an artifact's key (raises NotFoundError, DependencyError). `spool` is an empty folder that belongs
    to the caller alone: collected bytes go there, each file named by its sha256. `cancel` ends the program early.
    """

    request: ExecRequest
    batches: Sequence[Batch]
    fetch: Callable[[str], bytes]
    spool: Path
    cancel: Cancel = field(default_factory=NeverCancelled)


class Executor(Protocol):
    """A backend. One instance serves many runs, one at a time."""

    @property
    def mode(self) -> Mode:
        """Which backend this is."""
        ...

    def run(self, job: Job) -> Run:
        """Run the program to its end or its deadline and collect what it wrote.

        One that is cancelled ends early, with the error `cancelled`, and is collected all the same; before its program
        has begun it never does. Whatever happens to the program is in the answer, and so is what keeps it from
        starting: nothing is raised but DependencyError, for a backend that cannot be reached at all.
        """
        ...

    def close(self) -> None:
        """Give up what is kept warm."""
        ...
