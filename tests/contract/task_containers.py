"""Mode `fargate` without Fargate: a task's two containers by Docker, as the task definition describes them.

They share one network and one volume, and talk to a cloud in this process. What a backend does for its job, the
functions do for a task: hand over, wait, read what it stored.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from stepline.bootstrap.agent_choice import task_settings
from stepline.errors import SandboxError
from stepline.model.batch import encode_batch
from stepline.model.program.execution import Run
from stepline.model.program.handover import SECRET_VARIABLE, TOKEN_VARIABLE, Handover, Parcel
from stepline.ports.executor import Job
from stepline.programs.bundle_files import read_bundle_files
from stepline.programs.packed_files import split_files
from stepline.settings import Settings
from tests.contract.task_services import Cloud
from tests.security.escape.task_definition import Container, Definition

SETTINGS = task_settings(Settings.from_env({"EXEC_RUNTIME_MODE": "fargate"}))
AWS = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "us-east-1"}
END_S = 300
SERVE_ARN = "arn:aws:lambda:us-east-1:111122223333:function:stepline-test-serve:live"
OBJECTS = ("started", "run", "files")


@dataclass
class TaskExecutor:
    """An Executor. `variables` are in the environment of both containers, as ECS puts its own there.

    `network` is that of both containers, with the cloud in it.
    """

    image: str
    definition: Definition
    cloud: Cloud
    descriptors: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    backend: str = "fargate"
    network: str = "host"
    exit_code: int = -1
    log: str = ""

    def run(self, job: Job) -> Run:
        name = self.hand_over(job)
        with task(self, name) as supervisor:
            self.wait(supervisor, job.request.limits.timeout_s + END_S)
        return self.collect(name, job)

    def wait(self, supervisor: str, timeout_s: float = END_S) -> None:
        """Wait for the end of a task."""
        self.exit_code = int(docker("wait", supervisor, timeout_s=timeout_s).strip() or -1)
        self.log = docker("logs", supervisor)

    def hand_over(self, job: Job) -> str:
        """Put what the functions put before a task is started; return the run's name, which is its secret and token."""
        name = f"{job.request.exec_id}-{secrets.token_hex(4)}"
        self.cloud.fetch = job.fetch
        self.cloud.serve = job.serve
        grants = {word: self.cloud.grant("PUT", f"{name}/{word}") for word in OBJECTS}
        reads = {file.key: self.cloud.grant("GET", file.key) for file in job.request.files}
        batches = tuple(map(encode_batch, job.batches))
        log = self.cloud.grant("PUT", f"{name}/log", again=True)
        self.cloud.replaced = lambda _key, copy: job.keep_log(copy)
        bundle = dict(read_bundle_files(job.request.bundle))
        parcel = Parcel(request=job.request, batches=batches, reads=reads, log=log, bundle=bundle, **grants)
        self.cloud.put(f"{name}/parcel", msgspec.msgpack.encode(parcel))
        handover = Handover(
            parcel=self.cloud.grant("GET", f"{name}/parcel"),
            descriptors=dict(self.descriptors),
            settings={**SETTINGS, "STEPLINE_SERVE_ARN": SERVE_ARN},
        )
        self.cloud.secrets[name] = msgspec.json.encode(handover).decode()
        self.cloud.waiting[name] = []
        return name

    def collect(self, name: str, job: Job) -> Run:
        """Read what a task stored, as the functions do."""
        stored = self.cloud.objects.get(f"{name}/run")
        if stored is None:
            return Run(error="sandbox_execution_failed", message="the task reported nothing")
        run = msgspec.json.decode(stored, type=Run)
        if run.files:
            try:
                split_files([self.cloud.objects[f"{name}/files"]], run.files, job.spool)
            except SandboxError as error:
                return Run(error=error.reason, message=str(error))
        return run

    def close(self) -> None:
        """Nothing is kept warm."""


@contextmanager
def task(made: TaskExecutor, name: str) -> Iterator[str]:
    """Start the containers of a task and yield the supervisor's name; remove them and their volumes at the end."""
    supervisor, executor, volume = (f"stepline-{role}-{name}" for role in ("supervisor", "executor", "task"))
    handed = {TOKEN_VARIABLE: name, SECRET_VARIABLE: name, "AWS_ENDPOINT_URL": made.cloud.url, **AWS}
    shared = f"--volume={volume}:/workspace"
    own = made.variables
    try:
        _start(
            made,
            made.definition.supervisor,
            {**handed, **own},
            f"--name={supervisor}",
            f"--network={made.network}",
            shared,
        )
        if made.definition.executor:
            network = f"--network={made.network if made.network != 'host' else f'container:{supervisor}'}"
            _start(made, made.definition.executor, own, f"--name={executor}", network, shared)
        yield supervisor
    finally:
        docker("rm", "--force", "--volumes", supervisor, executor)
        docker("volume", "rm", volume)


def _start(made: TaskExecutor, container: Container, variables: Mapping[str, str], *where: str) -> None:
    program, *arguments = container.command
    environment = [f"--env={key}={value}" for key, value in variables.items()]
    docker(
        *("run", "--detach", "--pull=never", *where, *environment, *container.arguments),
        *(f"--entrypoint={program}", made.image, *arguments),
    )


def docker(*arguments: str, timeout_s: float = END_S) -> str:
    """Return what a command of docker said, whatever came of it."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, check=False, timeout=timeout_s
    )
    return done.stdout + done.stderr
