"""A stage in this process whose functions are those of several releases: one table, one bucket, one state machine, one gateway.

The table and the bucket are moto's, reached by each release's own adapters. The state machine and the gateway are here:
an execution is its name and its input, and a frame is bytes in an inbox.
"""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from aws_lambda_powertools import Metrics

from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.client import connect
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.table import Table
from stepline.adapters.memory.task import MemoryTasks
from tests.contract.deploy_storm.effects import note_effect
from tests.contract.deploy_storm.release_tree import AGENT, ReleaseTree
from tests.contract.deploy_storm.shared_store import SharedBucket, SharedTable
from tests.support.aws import create_table, moto

NAME: Final = "storm"
EVENTS: Final = Path(__file__).parents[2] / "data/events"
OPEN_TURNS: Final = 2
PIECE_CHARS: Final = 48
ENVIRONMENT: Final = {
    "STEPLINE_TABLE": NAME,
    "STEPLINE_BUCKET": NAME,
    "STEPLINE_STAGE": NAME,
    "STEPLINE_MACHINE_ARN": f"arn:aws:states:us-east-1:123456789012:stateMachine:{NAME}",
    "STEPLINE_CALLBACK_URL": "https://gateway.example/live",
    "STEPLINE_BUNDLE": AGENT,
    "FARGATE_CLUSTER": NAME,
    "FARGATE_TASK_DEFINITION": "exec",
    "FARGATE_SUBNETS": "subnet-1",
    "STEPLINE_OPEN_TURNS": str(OPEN_TURNS),
    "STEPLINE_USER_MESSAGES_PER_MINUTE": "0",
    "STEPLINE_APPROVAL_WAIT_S": "0",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
}
PLACE: Final = "EXEC_RUNTIME_MODE"
"""The variable that places programs: `process` is within a function, `fargate` in a task."""
CONTEXT: Final = SimpleNamespace(
    function_name=NAME,
    memory_limit_in_mb=256,
    invoked_function_arn=f"arn:aws:lambda:us-east-1:123456789012:function:{NAME}:live",
    aws_request_id="52fdfc07-2182-454f-963f-5f0f9a621d72",
)


class StageClock:
    """The time of all functions, which stops while they work."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._began = self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def monotonic_s(self) -> float:
        return (self._now - self._began).total_seconds()

    def pause(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


@dataclass
class Execution:
    """An execution of the state machine: its name, its input as JSON, and whether it has ended."""

    name: str
    step: dict[str, Any]
    ended: bool = False


class Stage:
    """A stage. `answer` is the model, and `midst` runs once, in the middle of the next generation.

    Without `stores` its table and bucket are moto's.
    """

    def __init__(self, stores: tuple[SharedTable, SharedBucket] | None = None) -> None:
        self._stores = stores
        table = Table(NAME)
        self.log, self.artifacts = DynamoLog(table), S3Artifacts(NAME)
        if stores:
            table.client, self.artifacts.client = stores  # type: ignore[assignment]  # they answer the calls
        self.clock = StageClock()
        self.tasks = MemoryTasks(self.clock)
        self.executions: dict[str, Execution] = {}
        self.inboxes: dict[str, list[bytes]] = {}
        self.answer: Callable[[], str] = str
        self.midst: Callable[[], None] | None = None
        self._wired: set[ReleaseTree] = set()

    def clear(self, *, remote: bool = False) -> None:
        """Begin again: with an empty table, and new processes; programs run in tasks if they are `remote`."""
        os.environ[PLACE] = "fargate" if remote else "process"  # noqa: TID251 - the functions' own environment
        for store in self._stores or ():
            store.clear()
        if not self._stores:
            _clear_moto()
        self.clock.restart()
        self.tasks = MemoryTasks(self.clock)
        self.executions.clear()
        self.inboxes.clear()
        self.answer, self.midst = str, None
        for release in self._wired:
            self.forget(release)

    def invoke(self, release: ReleaseTree, function: str, event: dict[str, Any]) -> dict[str, Any]:
        """Invoke a function of a release; everything passes through JSON. Raises the release's own errors."""
        sent = json.dumps(event)
        with self._process(release):
            handler = importlib.import_module(f"lambdas.{function}").handler
            answer: dict[str, Any] = json.loads(json.dumps(handler(json.loads(sent), CONTEXT)))
        return answer

    def run_task(self, release: ReleaseTree, launch: dict[str, Any], token: str) -> None:
        """Be a started task of a release: it takes its parcel, runs the program, stores the run and reports its end."""
        with self._process(release):
            handover = importlib.import_module("stepline.model.program.handover")
            artifacts = importlib.import_module("stepline.adapters.aws.artifacts").S3Artifacts(NAME)
            objects = self._grants(artifacts)
            taken = msgspec.json.decode(self.tasks.take(launch["secret"]), type=handover.Handover)
            parcel = msgspec.msgpack.decode(objects.get(taken.parcel), type=handover.Parcel)
            assert objects.put(parcel.started, b'{"by":"task"}')
            objects.put(parcel.run, msgspec.json.encode(_run_program(parcel)))
        for task in self.tasks.tasks.values():
            task.reason = "Essential container in task exited"
        self.tasks.end(token)

    @contextmanager
    def _process(self, release: ReleaseTree) -> Iterator[None]:
        """Be a process of a release, which is wired at its first time."""
        with release.active(), redirect_stdout(io.StringIO()):
            if release not in self._wired:
                self._wired.add(release)
                self._wire()
                release.change()
            yield

    def _grants(self, artifacts: Any) -> Any:
        return importlib.import_module("stepline.adapters.memory.grant").MemoryGrants(artifacts, self.clock)

    def forget(self, release: ReleaseTree) -> None:
        """Let the next steps of a release run in new processes."""
        if release in self._wired:
            with release.active():
                _edge().drop()

    # --- wiring

    def _wire(self) -> None:
        """Replace in the active release what waits, or needs a network: its clock, threads, model, programs, and two services."""
        wiring: Any = importlib.import_module("stepline.bootstrap.aws_wiring")
        memory = {
            name: importlib.import_module(f"stepline.adapters.memory.{name}")
            for name in ("executor", "model", "relay", "signal")
        }
        over_aws = wiring.on_aws

        def on_aws(settings: Any, meter: Any, kind: Any, **facts: Any) -> Any:
            app = over_aws(settings, meter, kind, **facts)
            signals = memory["signal"].MemorySignals(app.ports.log)
            grants = self._grants(app.ports.artifacts)
            app = replace(app, ports=replace(app.ports, signals=signals, tasks=self.tasks, grants=grants))
            return replace(app, given=_Model(self, memory["model"])) if hasattr(app, "given") else app

        wiring.on_aws = on_aws
        wiring.SystemClock = lambda: self.clock
        wiring.ParallelPosts = lambda: _post_in_turn
        wiring.ThreadedRelay = lambda **ports: memory["relay"].MemoryRelay(
            **{name: ports[name] for name in ("deltas", "subscriptions", "publisher")}
        )
        edge = _edge()
        if hasattr(edge, "on_aws"):  # a release whose edge imports the name
            edge.on_aws = on_aws
        programs = memory["executor"].MemoryExecutor(_run_program)
        importlib.import_module("stepline.bootstrap.program_backend").ProgramBackends.find = lambda *_, **__: (
            programs
        )
        self._serve()

    def _serve(self) -> None:
        """Answer the active release's calls of Step Functions and of the gateway; its clients are made once."""
        metering: Any = importlib.import_module("stepline.adapters.aws.metering.client_meter")
        metering.ClientMeter.listen = lambda *_: None  # one client has many apps here
        client = importlib.import_module("stepline.adapters.aws.client")
        client.session.cache_clear()
        session = client.session()
        for operation, answer in {
            "sfn.StartExecution": self._start,
            "sfn.DescribeExecution": self._describe,
            "sfn.ListExecutions": self._list,
            "sfn.StopExecution": self._stop,
        }.items():
            session.register(f"before-call.{operation}", _answering(answer))
        session.register("before-call.apigatewaymanagementapi.PostToConnection", self._post)
        made: dict[str, Any] = dict(zip(("dynamodb", "s3"), self._stores or (), strict=False))
        create = session.create_client

        def create_once(service: str, **facts: Any) -> Any:
            if service not in made:
                made[service] = create(service, **facts)
            return made[service]

        session.create_client = create_once

    def _start(self, asked: dict[str, Any]) -> dict[str, Any]:
        name = asked["name"]
        if name in self.executions:
            return {"Error": {"Code": "ExecutionAlreadyExists", "Message": name}}
        self.executions[name] = Execution(name, json.loads(asked["input"]))
        return {"executionArn": name}

    def _describe(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = self.executions.get(asked["executionArn"].rpartition(":")[2])
        if found is None:
            return {"Error": {"Code": "ExecutionDoesNotExist", "Message": ""}}
        return {"status": "SUCCEEDED" if found.ended else "RUNNING"}

    def _list(self, _asked: dict[str, Any]) -> dict[str, Any]:
        return {"executions": [{"name": one.name} for one in self.executions.values() if not one.ended]}

    def _stop(self, asked: dict[str, Any]) -> dict[str, Any]:
        if found := self.executions.get(asked["executionArn"].rpartition(":")[2]):
            found.ended = True
        return {}

    def _post(self, params: dict[str, Any], **_: Any) -> Any:
        self.inboxes.setdefault(params["url_path"].rpartition("/")[2], []).append(bytes(params["body"]))
        return SimpleNamespace(status_code=200), {}


def _clear_moto() -> None:
    client = connect("dynamodb", read_timeout_s=5)
    if NAME in client.list_tables()["TableNames"]:
        client.delete_table(TableName=NAME)
    create_table(NAME)


@contextmanager
def open_stage(*, over_moto: bool = False) -> Iterator[Stage]:
    """Yield a stage; afterwards the process is as it was."""
    with pytest.MonkeyPatch.context() as patch, moto():
        for name, value in {**ENVIRONMENT, PLACE: "process"}.items():
            patch.setenv(name, value)
        for name in ("_metrics", "_dimensions", "_metadata", "_default_dimensions"):
            patch.setattr(Metrics, name, {})  # every instance in a process shares them
        logging.disable(logging.CRITICAL)
        try:
            connect("s3", read_timeout_s=5).create_bucket(Bucket=NAME)
            yield Stage(None if over_moto else (SharedTable(), SharedBucket()))
        finally:
            logging.disable(logging.NOTSET)


def recorded(name: str) -> dict[str, Any]:
    """Return an event as AWS sends it."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


def _edge() -> Any:
    """Return the module of the active release that all its handlers share."""
    for name in ("lambdas.edge.runtime", "lambdas._runtime"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise AssertionError("the handlers of this release share no module that we know")


def _answering(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., Any]:
    """Return a handler of botocore's event before a call, which makes the call needless."""

    def instead(params: dict[str, Any], **_: Any) -> Any:
        parsed = answer(json.loads(params["body"]))
        return SimpleNamespace(status_code=400 if "Error" in parsed else 200), parsed

    return instead


def _post_in_turn(post: Any, waiting: Any) -> Any:
    return {connection: post(connection, frames) for connection, frames in waiting.items()}


def _run_program(job: Any) -> Any:
    """Return what a job's program did, as the active release has it: it printed its own text, and had an effect outside."""
    code = job.request.code
    note_effect("program", code)
    run = importlib.import_module("stepline.model.program.execution").Run
    return run(returncode=0, program_log=f"{code}\n", log_bytes=len(code) + 1)


class _Model:
    """The model of one release, which says what the stage's model says."""

    def __init__(self, stage: Stage, memory: Any) -> None:
        self._stage, self._memory = stage, memory

    def stream(self, request: Any) -> Any:
        said = self._memory.Say(text=self._stage.answer(), piece_chars=PIECE_CHARS)
        return _Stream(self._stage, self._memory.MemoryModelClient(said).stream(request))


class _Stream:
    """A generation in whose middle something happens."""

    def __init__(self, stage: Stage, inner: Any) -> None:
        self._stage, self._inner = stage, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Any:
        self._inner.__enter__()
        return self

    def __exit__(self, *facts: object) -> None:
        self._inner.__exit__(*facts)

    def __iter__(self) -> Iterator[str]:
        for at, piece in enumerate(self._inner):
            if at == 1 and self._stage.midst:
                midst, self._stage.midst = self._stage.midst, None
                midst()
            yield piece
