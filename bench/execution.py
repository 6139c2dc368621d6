"""The time to run a program in each backend, beside the time without one.

All values are wall time. The samples of a group are taken in turn, in the same run. If Docker or the
programs' packages are missing, their rows have no value, with a note.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from unittest import mock

from bench.row import EXEC_METRICS, Limit, MeasureError, Row
from bench.timing import interleave
from stepline.adapters.docker.executor import DockerExecutor
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.process.executor import ProcessExecutor
from stepline.adapters.process.fork_server import ForkServer
from stepline.errors import DependencyError
from stepline.local.stage.deployed import HOME
from stepline.local.stage.program_environment import EXECUTOR_HOME, process_backend
from stepline.local.stage.program_image import find_image, image_name
from stepline.model.ids import Lane
from stepline.model.program.execution import ExecRequest, RuntimeProfile
from stepline.ports.executor import Executor, Job
from stepline.programs.host import ToolHost
from stepline.tools.context import ToolContext
from stepline.tools.registry import Registry

ROUNDS_PROCESS = 30
ROUNDS_DOCKER = 7
ROUNDS_COLD = 3
GOAL_TIMES = {"bare": 0.6, "pandas": 0.07}
GOAL_DOCKER_RUNS = 1.5

PROGRAMS = {"bare": "pass", "pandas": "import pandas\npandas.DataFrame({'month': [1, 2]})['month'].sum()"}
PACKAGES = HOME / "exec-env/bin/python"
EXECUTOR_PYTHON = "/opt/exec/bin/python"
"""The interpreter of programs in the image."""

Sample = Callable[[], float]


def rows() -> list[Row]:
    """Return `exec_start_ms_<backend>_<cold|warm>_<bare|pandas>`."""
    found = {row.metric: row for row in (*_process_rows(), *_docker_rows())}
    return [found[metric] for metric in EXEC_METRICS]


def _process_rows() -> Iterator[Row]:
    for kind, program in PROGRAMS.items():
        python = Path(sys.executable) if kind == "bare" else PACKAGES
        if reason := process_backend().obstacle or _missing(python):
            yield from _absent("process", kind, reason)
            continue
        plain = _command(str(python), "-I", "-c", program)

        def make(python: Path = python) -> Executor:
            return ProcessExecutor(python=python, home=EXECUTOR_HOME, host=_no_tools)

        with _Runs(make, RuntimeProfile(backend="process"), program) as runs:
            cold = interleave({"cold": runs.cold_ms, "python": plain}, ROUNDS_COLD)
            warm = interleave(
                {"warm": runs.to_status_ms, "whole": runs.whole_ms, "python": plain}, ROUNDS_PROCESS
            )
        note = (
            f"the fork server is started first, with {'its packages' if kind == 'pandas' else 'no packages'}"
        )
        yield _row("process", "cold", kind, cold["cold"], peers={_named(kind): cold["python"]}, note=note)
        note = f"until the exit status is known; {warm['whole']:g} ms until files are collected and the next cell is ready"
        yield _row(
            "process",
            "warm",
            kind,
            warm["warm"],
            limit=Limit(_named(kind), warm["python"]),
            goal_times=GOAL_TIMES[kind],
            note=note,
        )


def _docker_rows() -> Iterator[Row]:
    image = image_name()
    if reason := _no_image(image):
        for kind in PROGRAMS:
            yield from _absent("docker", kind, reason)
        return
    with _warm_container(image) as container:
        for kind, program in PROGRAMS.items():
            python = (EXECUTOR_PYTHON, "-I", "-c", program)
            peers = {
                "docker run": _command("docker", "run", "--rm", "--network", "none", image, *python),
                "docker exec": _command("docker", "exec", container, *python),
            }
            profile = RuntimeProfile(backend="docker", image=image, network_mode="none")
            with _Runs(DockerExecutor, profile, program) as runs:
                cold = interleave({"cold": runs.cold_ms, **peers}, ROUNDS_COLD)
                warm = interleave({"warm": runs.settled_ms, **peers}, ROUNDS_DOCKER)
            yield _row(
                "docker", "cold", kind, cold.pop("cold"), peers=cold, note="the first run of a new backend"
            )
            value = warm.pop("warm")
            limit = Limit("docker run", warm["docker run"])
            note = f"split: two containers, files collected; {value / warm['docker run']:.2f} times one `docker run`"
            yield _row(
                "docker", "warm", kind, value, peers=warm, limit=limit, goal_times=GOAL_DOCKER_RUNS, note=note
            )


@dataclass
class _Runs:
    """Runs of one program; a backend is kept from the first warm one to the end."""

    make: Callable[[], Executor]
    profile: RuntimeProfile
    program: str

    def __enter__(self) -> Self:
        self._executor = self.make()
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()

    def cold_ms(self) -> float:
        with closing(self.make()) as executor:
            return self._run(executor)

    def whole_ms(self) -> float:
        """Return the milliseconds from the request to the report."""
        return self._run(self._executor)

    def settled_ms(self) -> float:
        """Return the same, after waiting for the run's cleanup, which would slow the next sample."""
        spent_ms = self._run(self._executor)
        self._executor.close()
        return spent_ms

    def to_status_ms(self) -> float:
        """Return the milliseconds until the fork server has reported the program's end."""
        known_s = 0.0
        ask = ForkServer.status

        def watched(server: ForkServer) -> int:
            nonlocal known_s
            status = ask(server)
            known_s = time.perf_counter()
            return status

        with mock.patch.object(ForkServer, "status", watched):
            start = time.perf_counter()
            self._run(self._executor)
        return (known_s - start) * 1000

    def _run(self, executor: Executor) -> float:
        with tempfile.TemporaryDirectory(prefix="stepline-bench-") as spool:
            job = Job(request=self._request(), batches=(), fetch=_no_file, spool=Path(spool))
            start = time.perf_counter()
            run = executor.run(job)
            spent_ms = (time.perf_counter() - start) * 1000
        if run.error:
            raise MeasureError(f"{run.error}: {run.message} {run.program_log}")
        return spent_ms

    def _request(self) -> ExecRequest:
        return ExecRequest(
            exec_id="tc_0123456789ab",
            lane=Lane(tenant="bench", project="bench", conversation="bench"),
            turn="turn_20261121T101500_ab12cd",
            iteration=0,
            at="2026-11-21T10:15:00.000Z",
            n=0,
            code=self.program,
            contract=(),
            profile=self.profile,
        )


def _no_tools(job: Job) -> ToolHost:
    def context(call_id: str) -> ToolContext:
        raise MeasureError(f"{call_id}: these programs call no tool")

    return ToolHost(
        registry=Registry(()), allowed=(), context=context, clock=MemoryClock(), exec_id=job.request.exec_id
    )


def _no_file(key: str) -> bytes:
    raise MeasureError(f"{key}: these programs have no files")


def _command(*arguments: str) -> Sample:
    """Return a sample of a command's wall time in milliseconds."""

    def sample() -> float:
        start = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True)
        return (time.perf_counter() - start) * 1000

    return sample


@contextmanager
def _warm_container(image: str) -> Iterator[str]:
    """Keep an idle container, for `docker exec`."""
    command = [
        "docker",
        "run",
        "--rm",
        "--detach",
        "--network",
        "none",
        "--init",
        "--entrypoint",
        "sleep",
        image,
        "600",
    ]
    container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield container
    finally:
        subprocess.run(["docker", "rm", "--force", container], check=True, capture_output=True)


def _missing(python: Path) -> str:
    return "" if python.exists() else "the packages of programs are not installed: make exec-env"


def _no_image(image: str) -> str:
    try:
        return find_image(image)
    except DependencyError as error:
        return str(error)


def _named(kind: str) -> str:
    return "python -c pass" if kind == "bare" else "python -c import pandas"


def _absent(backend: str, kind: str, reason: str) -> Iterator[Row]:
    for state in ("cold", "warm"):
        yield _row(backend, state, kind, None, note=f"not measured: {reason}")


def _row(
    backend: str,
    state: str,
    kind: str,
    value: float | None,
    *,
    peers: Mapping[str, float] | None = None,
    limit: Limit | None = None,
    goal_times: float | None = None,
    note: str = "",
) -> Row:
    return Row(
        metric=f"exec_start_ms_{backend}_{state}_{kind}",
        value=value,
        unit="ms",
        peers=peers or {},
        limit=limit,
        goal_times=goal_times,
        note=note,
    )
