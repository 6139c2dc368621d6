"""The loop with programs in tasks: the state that waits for one, and a task whose fate a test decides.

What a task stores is stored by the supervisor's own code; only the program is left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bundles.default import WORKFLOW
from exec_task.heartbeat import Heartbeat
from exec_task.task import Task, store_run
from exec_task.workspace import SPOOL
from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.task import MemoryTask, MemoryTasks
from stepline.bundle.assembly import build_agent
from stepline.loop.programs.make_outcome import BYTES, JSON_MIME
from stepline.loop.programs.remote import StoppedTask, end_wait, sweep_tasks
from stepline.model.program.execution import CollectedFile, Run, RunLimits, RuntimeProfile, TaskConfig
from stepline.model.program.handover import SECRET_VARIABLE, TOKEN_VARIABLE, Handover, Parcel, TaskLaunch
from stepline.model.step import Step
from stepline.tools.context import ReadCaps
from tests.support.conversation import Conversation

TASK = TaskConfig(
    cluster="cluster", task_definition="exec", container_name="supervisor", subnets=("subnet-1", "subnet-2")
)
PROFILE = RuntimeProfile(placement="remote", backend="fargate", task=TASK)
BODY = b"a,b\n1,2\n"


class Started:
    """A started task, from its own side, before any other step."""

    def __init__(self, conversation: TaskConversation, launch: TaskLaunch, token: str) -> None:
        self.name = f"arn:task/{len(conversation.tasks.tasks)}"
        self.conversation = conversation
        self.launch = launch
        self.token = token
        self.variables = {TOKEN_VARIABLE: token, SECRET_VARIABLE: launch.secret}
        conversation.tasks.tasks[self.name] = MemoryTask(
            ref=launch.ref, cluster=launch.cluster, variables=self.variables
        )
        self.private = Path(tempfile.mkdtemp(dir=conversation.folder))
        self.task = Task(
            task_token=conversation.tasks,
            objects=conversation.grants,
            heartbeat=Heartbeat(conversation.tasks, token),
            token=token,
            secret=launch.secret,
            strategy="combined",
            root=Path(tempfile.mkdtemp(dir=conversation.folder)),
            private=self.private,
            owner=None,
            limit_s=lambda _seconds: None,
        )

    def take(self) -> Parcel:
        handover = msgspec.json.decode(self.task.task_token.take(self.task.secret), type=Handover)
        return msgspec.msgpack.decode(self.task.objects.get(handover.parcel), type=Parcel)

    def claim(self) -> Parcel:
        """Take the run over, as the first claimant may."""
        parcel = self.take()
        assert self.task.objects.put(parcel.started, b'{"by":"task"}')
        return parcel

    def store(self, parcel: Parcel, run: Run, *, bodies: tuple[bytes, ...] = (BODY,)) -> None:
        """Store a run and its files: the promised file, and others next to it."""
        spool = self.private / SPOOL
        spool.mkdir()
        promised, turn = parcel.request.contract[0].filename, parcel.request.turn
        files = []
        for at, body in enumerate(bodies):
            sha256 = hashlib.sha256(body).hexdigest()
            (spool / sha256).write_bytes(body)
            path = f"{turn}/outputs/extra-{at}.txt" if at else promised
            files.append(CollectedFile(path=path, sha256=sha256, size_bytes=len(body)))
        store_run(self.task, parcel, replace(run, files=tuple(files)))

    def end(self) -> None:
        """End, and report the end."""
        self.task.task_token.end(self.token)
        self.stop("Essential container in task exited", exits=0)

    def stop(self, reason: str, *, exits: int | None) -> bool:
        """Stop, regardless of an earlier report; return True if the event ended the waiting state."""
        self.conversation.tasks.tasks[self.name].reason = reason
        code = "no exit code" if exits is None else exits
        return end_wait(
            self.conversation.ports,
            StoppedTask(task=self.name, cluster=self.launch.cluster, reason=f"{reason}; ended with {code}"),
        )


Fate = Callable[[Started], None]


class TaskConversation(Conversation):
    """A conversation whose programs run in tasks. `fate` decides each task's course, and ends its state or leaves it waiting."""

    def __init__(self, folder: Path, *script: Any, fate: Fate | None = None, **limits: Any) -> None:
        super().__init__(*script)
        self.folder = folder
        self.fate = fate or finish
        self.launched: list[TaskLaunch] = []
        self.refuse = ""
        tasks, grants = self.ports.tasks, self.ports.grants
        assert isinstance(tasks, MemoryTasks)
        assert isinstance(grants, MemoryGrants)
        self.tasks, self.grants = tasks, grants
        self.configure(PROFILE, **limits)

    def configure(self, profile: RuntimeProfile, *, timeout_s: int = 60, **execution: Any) -> None:
        """Let the agent run programs by this profile."""
        agent = build_agent(
            ReadCaps(), parts=WORKFLOW.parts(), runtime=(profile, RunLimits(timeout_s=timeout_s))
        )
        assert agent.execution is not None
        given = {"places": frozenset({"remote"}), **execution}
        self.agent = dataclasses.replace(agent, execution=dataclasses.replace(agent.execution, **given))

    @property
    def states(self) -> dict[str, Callable[[Step], Step]]:
        return super().states | {"executetask": self.execute_task}

    def execute_task(self, step: Step) -> Step:
        """Act as the state ExecuteTask: start a task, wait for its token, and keep the step next to the error."""
        launch = step.launch
        assert launch is not None
        self.launched.append(launch)
        if self.refuse:
            return failed(step, "Ecs.EcsException", self.refuse)
        token = f"token-{len(self.launched)}"
        self.tasks.waiting.add(token)
        self.fate(Started(self, launch, token))
        if token in self.tasks.waiting:  # there was no report of it
            self.tasks.waiting.discard(token)
            return failed(step, "States.HeartbeatTimeout", "")
        error, cause = self.tasks.ended[token]
        return failed(step, error, cause) if error else step

    def sweep(self) -> dict[str, int]:
        """Run the sweeper after a while."""
        self.clock.pause(3600)
        return sweep_tasks(self.ports)

    def left(self) -> dict[str, list[str]]:
        """Return the remains of all handovers: secrets, rows, running tasks."""
        running = [name for name, task in self.tasks.tasks.items() if not task.reason]
        found = {"secrets": list(self.tasks.secrets), "rows": list(self.tasks.rows), "tasks": running}
        return {kind: names for kind, names in found.items() if names}


def finish(task: Started) -> None:
    """Run the program successfully."""
    parcel = task.claim()
    task.store(parcel, Run(returncode=0, seconds=0.5, program_log="hello\n"))
    task.end()


def failed(step: Step, error: str, cause: str) -> Step:
    return replace(step, error={"Error": error, "Cause": cause})


__all__ = ["BODY", "BYTES", "JSON_MIME", "PROFILE", "Started", "TaskConversation", "failed", "finish"]
