"""Programs in tasks: the start of one, its program, and the report of its end.

RunTask is a separate process, so it may be refused (a crash before its call), be accepted without an answer
(lost), or be accepted late (a zombie). The task is another: it may die or sleep at every point, and be stopped.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.task import STAGE, MemoryTask, MemoryTasks, check_secret
from stepline.errors import NotFoundError
from stepline.loop.programs.remote import StoppedTask, end_wait
from stepline.model.program.execution import CollectedFile, ExecRequest, Run, ToolCallRecord
from stepline.model.program.handover import (
    SECRET_VARIABLE,
    TOKEN_VARIABLE,
    Handover,
    Parcel,
    TaskLaunch,
    secret_name,
)
from stepline.model.step import Step

from .process import Process, Proxy

Ask = Callable[[Process, ExecRequest], tuple[ToolCallRecord, ...]]


class SteppedTasks:
    """`Tasks` as one process sees it: every call to a service on the way is a point where it may die."""

    def __init__(self, process: Process, tasks: MemoryTasks, *, row_first: bool = True) -> None:
        self._do = Proxy(process, "tasks", tasks)
        self._row_first = row_first

    def hand_over(self, ref: str, text: str, *, cluster: str, deadline: str) -> str:
        check_secret(text)
        by = secrets.token_hex(4)
        steps: list[Callable[[], None]] = [
            lambda: self._do.open_row(ref, by, cluster, deadline),
            lambda: self._do.keep_secret(ref, text),
        ]
        for step in steps if self._row_first else reversed(steps):
            step()
        self._do.close_row(ref, by)
        return secret_name(STAGE, ref)

    def take_back(self, ref: str) -> None:
        seen = self._do.look(ref)
        self._do.drop_secret(ref)
        self._do.drop_row(ref, seen)

    def give_up(self, ref: str) -> None:
        seen = self._do.look(ref)
        self._do.drop_secret(ref)
        self._do.age_row(ref, seen)

    def __getattr__(self, method: str) -> Any:
        return getattr(self._do, method)


class Cloud:
    """Where tasks run. `marker` false is an ablation: a task runs whatever the marker says."""

    def __init__(
        self, tasks: MemoryTasks, grants: MemoryGrants, effects: Counter[str], *, marker: bool, ask: Ask
    ) -> None:
        self.tasks = tasks
        self.grants = grants
        self.effects = effects
        self.marker = marker
        self.ask = ask
        self.processes: dict[str, Process] = {}
        self.reported: set[str] = set()

    def run_task(self, me: Process, spawn: Callable[..., Process], launch: TaskLaunch, token: str) -> None:
        """Ask for a task; called by a process that may die before, or not hear the answer."""

        def begin() -> None:
            name = f"task-{len(self.tasks.tasks)}"
            variables = {TOKEN_VARIABLE: token, SECRET_VARIABLE: launch.secret}
            self.tasks.tasks[name] = MemoryTask(ref=launch.ref, cluster=launch.cluster, variables=variables)
            self.processes[name] = spawn(f"task:{name}", lambda task: self._task(task, variables))

        me.call("ecs", "run_task", begin)

    def _task(self, me: Process, variables: dict[str, str]) -> None:
        task_token, objects = Proxy(me, "duty", self.tasks), Proxy(me, "depot", self.grants)
        token = variables[TOKEN_VARIABLE]
        if not task_token.beat(token):
            return
        try:
            handover = msgspec.json.decode(task_token.take(variables[SECRET_VARIABLE]), type=Handover)
        except NotFoundError:
            task_token.end(token)
            return
        parcel = msgspec.msgpack.decode(objects.get(handover.parcel), type=Parcel)
        ours = objects.put(parcel.started, msgspec.json.encode({"by": me.name}))
        if ours or not self.marker:
            call = parcel.request.exec_id
            self.effects[call] += 1
            body = call.encode()
            sha256 = hashlib.sha256(body).hexdigest()
            file = CollectedFile(
                path=parcel.request.contract[0].filename, sha256=sha256, size_bytes=len(body)
            )
            calls = self.ask(me, parcel.request)
            task_token.beat(token)
            objects.put(parcel.files, body)
            objects.put(parcel.run, msgspec.json.encode(Run(returncode=0, files=(file,), calls=calls)))
        task_token.end(token)

    def settle(self, spawn: Callable[..., Process], ports: Callable[[Process], Any]) -> None:
        """End the tasks that were stopped, and report each that has ended."""
        for name, process in self.processes.items():
            task = self.tasks.tasks[name]
            if task.reason and not process.done:
                process.kill()
            if process.done and name not in self.reported:
                self.reported.add(name)
                task.reason = task.reason or "Essential container in task exited"
                stopped = StoppedTask(task=name, cluster=task.cluster, reason=task.reason)
                spawn(f"stopped:{name}", lambda me, stopped=stopped: end_wait(ports(me), stopped))

    def expire(self, token: str) -> None:
        """Let the state that waits with this token give up."""
        if token in self.tasks.waiting:
            self.tasks.waiting.discard(token)
            self.tasks.ended[token] = ("States.HeartbeatTimeout", "")

    def await_task(self, me: Process, spawn: Callable[..., Process], step: Step, name: str) -> Step:
        """Be the state ExecuteTask: start the task, wait for its token, keep the step as it was."""
        launch = step.launch
        if launch is None:
            raise NotFoundError("nothing to launch")
        token = f"{name}/{launch.client_token}"
        self.tasks.waiting.add(token)
        asked = spawn(f"run:{token}", lambda p: self.run_task(p, spawn, launch, token))
        me.wait(lambda: asked.done or asked.given_up)
        if asked.given_up or asked.error is not None:
            self.tasks.waiting.discard(token)
            return _failed(step, "Ecs.SdkClientException", "no answer")
        me.wait(lambda: token not in self.tasks.waiting)
        error, cause = self.tasks.ended[token]
        return _failed(step, error, cause) if error else step


def _failed(step: Step, error: str, cause: str) -> Step:
    return msgspec.structs.replace(step, error={"Error": error, "Cause": cause})
