"""The backends that run programs from this process, and the tools that those programs may call."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepline.model.ids import utc
from stepline.model.program.served_call import ServedAnswer, ServedCall
from stepline.model.source import Source
from stepline.programs.host import Ask, ToolHost
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext
from stepline.tools.sources import SourcePool

if TYPE_CHECKING:
    from stepline.bootstrap.loop_app import LoopApp
    from stepline.model.program.execution import DescriptorScope, RuntimeProfile
    from stepline.ports.executor import Executor, Job


class ProgramBackends:
    """Creates each backend on first use and keeps it warm."""

    def __init__(self, app: LoopApp) -> None:
        self._app = app
        self._dockers: dict[str, Executor] = {}

    def find(self, profile: RuntimeProfile, bundle: str = "") -> Executor | None:
        """Return the executor of a profile for a bundle's programs; None if this process has none."""
        match profile.backend:
            case "process":
                return self._process
            case "docker":
                if bundle not in self._dockers:
                    self._dockers[bundle] = self._docker(self._app.of(bundle))
                return self._dockers[bundle]
            case _:
                return None

    @cached_property
    def _process(self) -> Executor:
        from stepline.adapters.process.executor import ProcessExecutor  # noqa: PLC0415 - 33 ms of CPU, in one of two modes

        python, home = Path(self._app.settings.exec_python), Path(self._app.settings.exec_home)
        return ProcessExecutor(python=python, home=home, host=self.tool_host)

    def _docker(self, app: LoopApp) -> Executor:
        from stepline.adapters.docker.executor import DockerExecutor  # noqa: PLC0415 - 17 ms of CPU, in the other mode

        scope: DescriptorScope = "active_bundle"
        if app.agent.execution:
            scope = app.agent.execution.profile.descriptor_payload_scope
        return DockerExecutor(descriptors=app.scoped_texts(scope), environment=app.handed)

    def tool_host(self, job: Job) -> ToolHost:
        """Return the tools that a job's program may call, run as by its supervisor.

        They are the tools of the conversation's bundle.
        """
        request = job.request
        app = self._app.of(job.batches[-1].state.bundle if job.batches else "")
        # Most programs call no tool; the log is folded on the first call.
        timeline = cache(lambda: Timeline.empty(request.lane).extended(job.batches))
        pool = cache(lambda: SourcePool(timeline().sources))

        def context(call_id: str) -> ToolContext:
            return ToolContext(
                lane=request.lane,
                turn=request.turn,
                call_id=call_id,
                iteration=request.iteration,
                ts=utc(app.ports.clock.now()),
                artifacts=app.ports.artifacts,
                timeline=timeline(),
                caps=app.agent.caps,
                services=app.agent.services,
                search=app.ports.search,
                pages=app.ports.pages,
                sources=pool(),
                shelves=app.agent.shelves,
                user=timeline().state.owner,
                resolvers=app.agent.resolvers,
                cancel=job.cancel,
            )

        return ToolHost(
            exec_id=request.exec_id,
            registry=app.agent.registry,
            allowed=request.tools,
            context=context,
            clock=app.ports.clock,
            served=request.served,
            ask=ask_of(job, app.bundle),
        )


def ask_of(job: Job, bundle: str = "") -> Ask:
    """Return the callable by which a job's program has a function make its calls."""
    request = job.request

    def ask(number: int, tool_id: str, params: Any, sources: tuple[Source, ...]) -> ServedAnswer:
        call = ServedCall(
            lane=request.lane,
            turn=request.turn,
            exec_id=request.exec_id,
            ticket=request.served.ticket,
            number=number,
            tool_id=tool_id,
            params=params,
            sources=sources,
            bundle=bundle,
        )
        return job.serve(call)

    return ask
