"""What a release of a function runs that stops where a test says: at the nth write of a name, for one conversation.

It is loaded in the function's own process. Every write is noted in `<conversation>.trace`. A `<conversation>.plan` names
one, and what is to happen there, once:

    before  the worker stops ahead of the write, until it is killed
    after   the same after it
    lost    the write is made, and its answer is lost

A worker that stops says who it is through `<conversation>.gate`, a named pipe.
"""

from __future__ import annotations

import functools
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.machine import StepFunctionsMachine
from stepline.adapters.aws.publisher import GatewayPublisher
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.errors import DependencyError, UnknownOutcome
from stepline.ports.artifacts import Artifacts
from stepline.ports.channel import Publisher, Subscriptions
from stepline.ports.executor import Executor
from stepline.ports.log import Log
from stepline.ports.machine import Machine
from stepline.ports.relay import Deltas
from tests.contract.fault.boundary import WRITES

ADAPTERS = (
    ("log", Log, DynamoLog),
    ("artifacts", Artifacts, S3Artifacts),
    ("subscriptions", Subscriptions, DynamoSubscriptions),
    ("publisher", Publisher, GatewayPublisher),
    ("machine", Machine, StepFunctionsMachine),
    ("deltas", Deltas, DynamoDeltas),
)
UNKNOWN = "log.put"
"""What says by an error of its own that its answer is lost."""


class Boundaries:
    """The writes of one function's process."""

    def __init__(self, function: str, folder: Path) -> None:
        self._function = function
        self._folder = folder
        self._lock = threading.Lock()
        self._conversation = ""

    def install(self) -> None:
        """Put a stop before and after every write of every adapter."""
        for port, protocol, adapter in [*ADAPTERS, *(_backends() if self._function == "execute" else ())]:
            for name in sorted(WRITES[protocol.__name__]):
                setattr(adapter, name, self._wrapped(f"{port}.{name}", getattr(adapter, name)))

    def enter(self, event: object) -> None:
        """Note which conversation an invocation is about."""
        found = re.search(r"conversation\W+([\w-]+)", json.dumps(event))
        self._conversation = found[1] if found else "none"

    def _wrapped(self, name, method):
        @functools.wraps(method)
        def run(*args, **kwargs):
            how = self._reach(name)
            if how == "before":
                self._stop()
            answer = method(*args, **kwargs)
            if how == "after":
                self._stop()
            if how == "lost":
                raise UnknownOutcome("lost") if name == UNKNOWN else DependencyError("lost")
            return answer

        return run

    def _reach(self, name: str) -> str:
        """Note a write; return what is to happen at it, if it is the one that the test named."""
        line = f"{self._function} {name}\n"
        with self._lock:
            trace, plan = self._file("trace"), self._file("plan")
            with trace.open("a") as file:
                file.write(line)
            nth = trace.read_text().count(line)
            wanted = plan.read_text().split() if plan.exists() else []
            if wanted[:3] != [self._function, name, str(nth)]:
                return ""
            plan.unlink()
            return wanted[3]

    def _stop(self) -> None:
        self._file("gate").write_text(str(os.getpid()))  # which waits for a reader
        threading.Event().wait()

    def _file(self, kind: str) -> Path:
        return self._folder / f"{self._conversation}.{kind}"


def _backends() -> Iterator[tuple[str, type, type]]:
    from stepline.adapters.docker.executor import DockerExecutor
    from stepline.adapters.process.executor import ProcessExecutor

    yield "executor", Executor, ProcessExecutor
    yield "executor", Executor, DockerExecutor


def stopping(handler, function: str, folder: str):
    """Return a function's handler that can be stopped at its writes."""
    boundaries = Boundaries(function, Path(folder))
    boundaries.install()

    @functools.wraps(handler)
    def handle(event, context):
        boundaries.enter(event)
        return handler(event, context)

    return handle
