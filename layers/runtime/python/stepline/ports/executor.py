"""The executor: runs one program of the agent without any authority."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from stepline.model.batch import Batch
from stepline.model.program.execution import ExecRequest, Run
from stepline.model.program.served_call import ServedAnswer, ServedCall
from stepline.ports.signal import Cancel, NeverCancelled


def forget_log(_log: bytes) -> None:
    """Store nothing: no client watches this run."""


Serve: TypeAlias = Callable[[ServedCall], ServedAnswer]
"""Makes a call for a running program; the same call again has the same answer. Raises DependencyError."""


def serve_nothing(_call: ServedCall) -> ServedAnswer:
    """Refuse a call: no function makes any here."""
    return ServedAnswer(code="calls_unavailable", message="no function makes calls of programs here")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run for a backend.

    `batches` is the conversation's whole log up to `request.n`, for the tools of the supervisor. `fetch` returns
    the bytes of an artifact's key (raises NotFoundError, DependencyError). `spool` is an empty private folder of
    the caller: collected bytes go there, each file named by its sha256. `cancel` ends the program early.
    `keep_log` stores a `RunningLog` as JSON, replacing the previous one (raises DependencyError). `serve` makes the
    calls of `request.served`; several threads may use it.
    """

    request: ExecRequest
    batches: Sequence[Batch]
    fetch: Callable[[str], bytes]
    spool: Path
    cancel: Cancel = field(default_factory=NeverCancelled)
    keep_log: Callable[[bytes], None] = forget_log
    serve: Serve = serve_nothing


class Executor(Protocol):
    """A backend. One instance serves many runs, one at a time."""

    @property
    def backend(self) -> str:
        """The backend's mode."""

    def run(self, job: Job) -> Run:
        """Run the program to its end or its deadline, and collect its files.

        A cancelled run ends early, with the error `cancelled`, and its files are still collected; if its program
        has not started, it never does. Errors of the program, and errors that keep it from starting, are in the
        result: the only exception raised is DependencyError, for a backend that cannot be reached.
        """

    def close(self) -> None:
        """End warm processes and release their resources."""
