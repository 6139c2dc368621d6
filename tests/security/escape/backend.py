"""The backends as a deployment uses them, with a supervisor that has a secret, and one way to run a program on each."""

from __future__ import annotations

import dataclasses
import errno
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from exec_task.executor import kernel, zygote
from stepline.adapters.docker.executor import DockerExecutor
from stepline.adapters.process.executor import ProcessExecutor
from stepline.bundle.descriptor_set import encode_payload
from stepline.model.program.execution import (
    MIB,
    ContainerStrategy,
    ExecRequest,
    Run,
    RunLimits,
    RuntimeProfile,
    ServedGrant,
)
from stepline.model.program.served_call import ServedAnswer, ServedCall
from stepline.ports.executor import Executor, Job
from tests.contract.executor_jobs import DOCKER_ENVIRONMENT, HOME, IMAGE, docker_missing, tool_host
from tests.contract.task_containers import TaskExecutor, docker
from tests.contract.task_services import Cloud
from tests.support.bundle_on_disk import BUNDLE
from tests.support.container_profile import write_interpreter, write_profile
from tests.support.log_builder import LANE, LogBuilder

from .task_definition import task_definition

TURN = "turn_20261122T100000_e5ca9e"
SECRET = f"secret-{secrets.token_hex(16)}"
"""Lies everywhere around the program: in descriptors, in the environment, in files. No program ever shows it."""

SERVED = ServedGrant(tools=("mcp.crm.add",), ticket=SECRET, calls=60)
"""The ticket of the run is a secret of its supervisor, too."""

LIMITS = RunLimits(
    timeout_s=180,
    max_file_bytes=MIB,
    max_delta_bytes=4 * MIB,
    memory_bytes=2048 * MIB,
    processes=64,
    open_files=128,
    monitor_interval_s=0.1,
    tool_calls=60,
    log_bytes=64 * 1024,
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A run and the bytes of the files it left."""

    run: Run
    files: Mapping[str, bytes]


class Backend:
    """One executor under attack. `name` is what the report calls it, `drift` what is otherwise than where it is meant for."""

    def __init__(
        self, name: str, executor: Executor, profile: RuntimeProfile, drift: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.drift = drift
        self.executor = executor
        self.profile = profile
        self._log = LogBuilder()
        self._log.message("The agent is about to run a program.")
        self._runs = 0

    def run(self, program: str, limits: RunLimits = LIMITS) -> Outcome:
        """Run one program to its end. It may call `react.read`, and have the tool of a server called."""
        self._runs += 1
        request = ExecRequest(
            exec_id=f"tc_{self._runs:012x}",
            lane=LANE,
            turn=TURN,
            iteration=1,
            at=self._log.at,
            n=len(self._log.batches),
            code=program,
            contract=(),
            tools=("react.read",),
            served=SERVED,
            limits=limits,
            profile=self.profile,
            bundle=BUNDLE,
        )
        with tempfile.TemporaryDirectory(prefix="escape-") as spool:
            job = Job(
                request=request, batches=self._log.batches, fetch=_nothing, spool=Path(spool), serve=_serve
            )
            run = self.executor.run(job)
            files = {file.path: Path(spool, file.sha256).read_bytes() for file in run.files}
        return Outcome(run, files)

    def servers(self) -> list[int]:
        """Return the pids of the processes that make programs, as this machine knows them."""
        process = getattr(getattr(self.executor, "_server", None), "_process", None)
        if process is None:
            return []
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [process.pid, *map(int, children)]


def _serve(call: ServedCall) -> ServedAnswer:
    """Be the function that has the model's key and the secrets of servers."""
    assert call.ticket == SECRET
    return ServedAnswer(result="served")


def _nothing(key: str) -> bytes:
    raise AssertionError(f"no input was given, and {key} was fetched")


@contextmanager
def process_backend(name: str = "process", python: Path = Path(sys.executable)) -> Iterator[Backend]:
    executor = ProcessExecutor(python=python, home=HOME, host=tool_host, preload=("json", "ctypes"))
    try:
        backend = Backend(name, executor, RuntimeProfile(backend="process"))
        probe = backend.run("")
        if probe.run.error == "unsupported_platform":
            pytest.skip(probe.run.message)
        yield backend
    finally:
        executor.close()


@contextmanager
def refused_process_backend() -> Iterator[Backend]:
    """The same where neither `close_range` nor Landlock is to be had: ENOSYS, as of an old kernel."""
    with (
        tempfile.TemporaryDirectory(prefix="escape-") as folder,
        process_backend("process, ENOSYS", write_interpreter(Path(folder), errno.ENOSYS)) as backend,
    ):
        yield backend


@contextmanager
def docker_backend(strategy: ContainerStrategy) -> Iterator[Backend]:
    if reason := docker_missing():
        pytest.skip(reason)
    executor = DockerExecutor(
        descriptors={"secrets": f"api_key: {SECRET}\n"},
        environment={**DOCKER_ENVIRONMENT, "AWS_SECRET_ACCESS_KEY": SECRET},
    )
    try:
        # The supervisor has the host's network, as by default: the walls of the program must not depend on it.
        profile = RuntimeProfile(
            backend="docker", image=IMAGE, container_strategy=strategy, network_mode="host"
        )
        yield Backend(f"docker {strategy}", executor, profile)
    finally:
        executor.close()


@contextmanager
def task_backend() -> Iterator[Backend]:
    if reason := docker_missing():
        pytest.skip(reason)
    with Cloud() as cloud:
        yield _task_backend("fargate", cloud)


@contextmanager
def refused_task_backend() -> Iterator[Backend]:
    """A task on a host whose profile refuses `close_range` and Landlock: EPERM, in a network that is the task's own."""
    if reason := docker_missing():
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("the cloud is put into the task's network by root alone")
    network = f"stepline-network-{secrets.token_hex(4)}"
    wait = ("--entrypoint=/opt/exec/bin/python", IMAGE, "-c", "import signal; signal.pause()")
    with tempfile.TemporaryDirectory(prefix="escape-") as folder:
        profile = write_profile(Path(folder), errno.EPERM)
        try:
            docker("run", "--detach", "--pull=never", "--network=none", f"--name={network}", *wait)
            pid = docker("inspect", "--format={{.State.Pid}}", network).strip()
            with _cloud_in_network_of(int(pid)) as cloud:
                yield _task_backend("fargate, EPERM", cloud, f"container:{network}", profile)
        finally:
            docker("rm", "--force", network)


def _cloud_in_network_of(pid: int) -> Cloud:
    """Return a cloud on the loopback of a process's network. Its thread, which is in there, ends."""

    def make() -> Cloud:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        zygote.join(network, kernel.CLONE_NEWNET)
        os.close(network)
        return Cloud()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def _task_backend(name: str, cloud: Cloud, network: str = "host", profile: str = "") -> Backend:
    definition = task_definition()
    if profile:
        both = {
            role: dataclasses.replace(container, arguments=(*container.arguments, profile))
            for role, container in (
                ("supervisor", definition.supervisor),
                ("executor", definition.executor),
            )
        }
        definition = dataclasses.replace(definition, **both)
    executor = TaskExecutor(
        IMAGE,
        definition,
        cloud,
        descriptors=encode_payload({"secrets": f"api_key: {SECRET}\n"}),
        # ECS puts the way to the task's credentials into both containers.
        variables={"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": f"/v2/credentials/{SECRET}"},
        network=network,
    )
    return Backend(name, executor, RuntimeProfile(placement="remote", backend="fargate"), definition.drift)
