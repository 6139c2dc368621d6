"""Backends of the Executor port, and jobs for them: a conversation of one message, its tools, its files."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepline.adapters.corpus import CorpusPages, CorpusSearch
from stepline.adapters.docker.executor import DockerExecutor
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.process.executor import ProcessExecutor
from stepline.adapters.process.group import PROC
from stepline.adapters.system import SystemClock
from stepline.adapters.web.page_fetch import PageFetcher
from stepline.bootstrap.program_backend import ask_of
from stepline.errors import DependencyError
from stepline.local.stage.program_image import image_name
from stepline.model.ids import utc
from stepline.model.program.execution import (
    ContainerStrategy,
    ExecRequest,
    Run,
    RunLimits,
    RuntimeProfile,
    ServedGrant,
    ToolEvent,
    WorkFile,
)
from stepline.model.program.served_call import ServedAnswer, ServedCall
from stepline.model.usage import ModelCall, Usage
from stepline.ports.executor import Executor, Job
from stepline.programs.host import NOT_SERVED, ToolHost
from stepline.timeline.fold import Timeline
from stepline.tools.catalogue import default_registry
from stepline.tools.context import ReadCaps, ToolContext
from stepline.tools.sources import SourcePool
from tests.contract.task_containers import TaskExecutor
from tests.contract.task_services import Cloud
from tests.security.escape.task_definition import task_definition
from tests.support.bundle_on_disk import BUNDLE, bundle_on_disk
from tests.support.draw import share
from tests.support.log_builder import LANE, LogBuilder

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "exec_task"
IMAGE = os.environ.get("PY_CODE_EXEC_IMAGE") or image_name()  # noqa: TID251 - as a deployment names it
# What a supervisor's settings must name; nothing is connected to.
DOCKER_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "STEPLINE_TABLE": "none",
    "STEPLINE_BUCKET": "none",
    "EXEC_RUNTIME_MODE": "docker",
}

TOOLS = ("ctx_tools.fetch_ctx", "react.read")
SAID = "The warehouse is in Lyon."
LIMITS = RunLimits(timeout_s=180, monitor_interval_s=0.1)
DEADLINES_S = (2, 8, 32)
"""Deadlines of a program that is to write and print before them: on a busy machine it may not come so far in the first."""


MODEL_CALL = ModelCall(
    role="shop", model="memory", usage=Usage(input_tokens=9, output_tokens=1), id="1234abcd"
)


class Bench:
    """One backend and everything a run on it needs. Every run has an empty spool; `spool` is the newest one."""

    def __init__(self, executor: Executor, profile: RuntimeProfile, spools: Path) -> None:
        self.executor = executor
        self.profile = profile
        self.artifacts = MemoryArtifacts()
        self.log = LogBuilder()
        self.log.message(SAID)
        self.turn = self.log.turn
        self.served: list[ServedCall] = []
        self.spools = spools
        self.spool = spools
        self.runs = 0

    def file(self, path: str, body: bytes) -> WorkFile:
        """Put a file where `path` says, `outputs/…` of this turn or of the one that is named."""
        whole = path if path.startswith("turn_") else f"{self.turn}/{path}"
        sha256 = hashlib.sha256(body).hexdigest()
        self.artifacts.put(sha256, body, mime="application/octet-stream")
        return WorkFile(path=whole, key=sha256, sha256=sha256, size_bytes=len(body), mime="text/plain")

    def job(
        self,
        code: str,
        *,
        files: tuple[WorkFile, ...] = (),
        limits: RunLimits = LIMITS,
        tools: tuple[str, ...] = TOOLS,
        served: ServedGrant = NOT_SERVED,
    ) -> Job:
        self.runs += 1
        self.spool = self.spools / str(self.runs)
        self.spool.mkdir()
        request = ExecRequest(
            exec_id=f"tc_{self.runs:012x}",
            lane=LANE,
            turn=self.turn,
            iteration=0,
            at=self.log.at,
            n=len(self.log.batches),
            code=textwrap.dedent(code),
            contract=(),
            files=files,
            tools=tools,
            limits=limits,
            profile=self.profile,
            bundle=BUNDLE,
            served=served,
        )
        return Job(
            request=request,
            batches=self.log.batches,
            fetch=self.artifacts.get,
            spool=self.spool,
            serve=self.serve,
        )

    def serve(self, call: ServedCall) -> ServedAnswer:
        """Answer a call with its parameters; the first one is lost, and `refuse` is refused."""
        self.served.append(call)
        if len(self.served) == 1:
            raise DependencyError("the answer was lost")
        if call.params.get("refuse"):
            return ServedAnswer(code="mcp_tool_failed", message="no")
        event = ToolEvent(type="served", at=self.log.at, tool_id=call.tool_id)
        return ServedAnswer(result={"got": call.params}, events=(event,), models=(MODEL_CALL,))

    def run(self, code: str, **given: Any) -> Run:
        return self.executor.run(self.job(code, **given))

    def ran(self, code: str, **given: Any) -> Run:
        """Run what is expected to end well."""
        run = self.run(code, **given)
        assert not run.error, (run.error, run.message, run.program_log, run.runtime_log)
        return run

    def bytes(self, run: Run, path: str) -> bytes:
        """Return what a run left at a path of this turn, by the hash it reports."""
        (found,) = [file for file in run.files if file.path == f"{self.turn}/{path}"]
        body = (self.spool / found.sha256).read_bytes()
        assert (found.sha256, found.size_bytes) == (hashlib.sha256(body).hexdigest(), len(body))
        return body


def tool_host(job: Job) -> ToolHost:
    """The built-in tools over the job's own log, as a supervisor has them."""
    clock, timeline = SystemClock(), Timeline.empty(LANE).extended(job.batches)
    pool, search = SourcePool(timeline.sources), CorpusSearch()

    def context(call_id: str) -> ToolContext:
        return ToolContext(
            lane=LANE,
            turn=job.request.turn,
            call_id=call_id,
            iteration=0,
            ts=utc(clock.now()),
            artifacts=MemoryArtifacts(),
            timeline=timeline,
            caps=ReadCaps(),
            search=search,
            pages=CorpusPages(search, PageFetcher()),
            sources=pool,
        )

    return ToolHost(
        registry=default_registry(executes=True),
        allowed=job.request.tools,
        context=context,
        clock=clock,
        exec_id=job.request.exec_id,
        served=job.request.served,
        ask=ask_of(job),
    )


@contextmanager
def bench_of(executor: Executor, profile: RuntimeProfile) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="spools-") as spools, bundle_on_disk(), closing(executor):
        yield Bench(executor, profile, Path(spools))


@contextmanager
def process_bench(
    host: Callable[[Job], ToolHost] = tool_host,
    *,
    python: Path = Path(sys.executable),
    home: Path = HOME,
    proc: Path = PROC,
) -> Iterator[Bench]:
    executor = ProcessExecutor(python=python, home=home, host=host, proc=proc)
    with bench_of(executor, RuntimeProfile(backend="process")) as bench:
        yield bench


@contextmanager
def sound_process_bench() -> Iterator[Bench]:
    with process_bench() as bench:
        skip_unsupported(bench)
        yield bench


def skip_unsupported(bench: Bench) -> None:
    probe = bench.run("")
    if probe.error == "unsupported_platform":
        pytest.skip(probe.message)


@contextmanager
def docker_bench(strategy: ContainerStrategy) -> Iterator[Bench]:
    if reason := docker_missing():
        pytest.skip(reason)
    profile = RuntimeProfile(backend="docker", image=IMAGE, container_strategy=strategy, network_mode="none")
    with bench_of(DockerExecutor(environment=DOCKER_ENVIRONMENT), profile) as bench:
        yield bench


@contextmanager
def task_bench() -> Iterator[Bench]:
    if reason := docker_missing():
        pytest.skip(reason)
    with (
        Cloud() as cloud,
        bench_of(
            TaskExecutor(IMAGE, task_definition(), cloud),
            RuntimeProfile(placement="remote", backend="fargate"),
        ) as bench,
    ):
        yield bench


def docker_missing() -> str:
    """Return why there is no Docker to test on, or nothing."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    found = subprocess.run(
        ["docker", "image", "inspect", "--format", "{{.Id}}", IMAGE],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stderr.strip() if found.returncode else ""


IN_CONTAINERS = {
    "docker-split": lambda: docker_bench("split"),
    "docker-combined": lambda: docker_bench("combined"),
    "fargate": task_bench,
}
BACKENDS = {
    "process": sound_process_bench,
    **{name: IN_CONTAINERS[name] for name in share(list(IN_CONTAINERS), len(IN_CONTAINERS))},
}
"""Processes in each landing, and one of the places that start a container for each case, which takes a second."""
