"""The state that waits for a task, and the task: a container with an invocation of its own, which may die like any."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.adapters.memory.task import MemoryTask
from stepline.errors import NotFoundError
from stepline.loop.programs.remote import start_task
from stepline.model.program.execution import CollectedFile, Run
from stepline.model.program.handover import SECRET_VARIABLE, TOKEN_VARIABLE, Handover, Parcel
from stepline.model.step import Step
from stepline.ports.task import GrantedObjects, TaskToken
from tests.contract.fault.simulation import Simulation

from .boundary import InterruptiblePort, Reach

EXITED: Final = "Essential container in task exited"


class Waiting:
    """ExecuteTask of one execution: a task was asked for, and `step` says how the wait ended, once it has."""

    def __init__(self, simulation: Simulation, execution: str, step: Step) -> None:
        """Wait for a task that has yet to be started."""
        launch = step.launch
        assert launch is not None
        self.simulation = simulation
        self.token = f"{execution}/{launch.client_token}"
        self.cluster = launch.cluster
        self.name = ""
        self.task: MemoryTask | None = None
        self._step = step
        simulation.tasks.waiting.add(self.token)

    def start(self, reach: Reach) -> None:
        """Start the task, as its function does."""
        start_task(self.simulation.seen(reach), self._step, self.token)

    def find(self) -> bool:
        """Return True if the task was started."""
        for name, task in self.simulation.tasks.tasks.items():
            if task.variables[TOKEN_VARIABLE] == self.token:
                self.name, self.task = name, task
        return self.task is not None

    def lose(self) -> None:
        """Hear that the function has failed."""
        if not self.over:
            self._end("Lambda.Unknown")

    @property
    def over(self) -> bool:
        return self.token not in self.simulation.tasks.waiting

    def expire(self) -> None:
        """Hear of the task no more."""
        self._end("States.HeartbeatTimeout")

    def _end(self, error: str) -> None:
        self.simulation.tasks.waiting.discard(self.token)
        self.simulation.tasks.ended[self.token] = (error, "")

    def step(self) -> Step:
        error, cause = self.simulation.tasks.ended[self.token]
        return replace(self._step, error={"Error": error, "Cause": cause}) if error else self._step

    def run(self, reach: Reach) -> None:
        """Be the supervisor: take the handover and the run, strike, report, say so."""
        task_token = InterruptiblePort(reach, "duty", TaskToken, self.simulation.tasks)
        objects = InterruptiblePort(reach, "depot", GrantedObjects, self.simulation.ports.grants)
        assert self.task is not None
        variables = self.task.variables
        if not task_token.beat(self.token):
            return
        try:
            handover = msgspec.json.decode(task_token.take(variables[SECRET_VARIABLE]), type=Handover)
        except NotFoundError:
            task_token.end(self.token)
            return
        parcel = msgspec.msgpack.decode(objects.get(handover.parcel), type=Parcel)
        if objects.put(parcel.started, msgspec.json.encode({"by": self.name})):
            self._run(reach, objects, parcel)
        task_token.end(self.token)

    def _run(self, reach: Reach, objects: InterruptiblePort, parcel: Parcel) -> None:
        call = parcel.request.exec_id
        reach("tool.program", lambda: self.simulation.effects.update([call]))
        self.simulation.ask_model(reach, parcel.request)
        self.simulation.moment(f"program {self.simulation.round}")
        if self.task is not None and self.task.reason:
            return  # it was stopped, and reports nothing
        body = call.encode()
        sha256 = hashlib.sha256(body).hexdigest()
        path = parcel.request.contract[0].filename
        file = CollectedFile(path=path, sha256=sha256, size_bytes=len(body))
        objects.put(parcel.files, body)
        objects.put(parcel.run, msgspec.json.encode(Run(returncode=0, files=(file,))))
