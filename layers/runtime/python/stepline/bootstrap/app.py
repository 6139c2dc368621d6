"""The app: every use case over every adapter, wired once a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from stepline.bootstrap.choice import (
    agent_version,
    execution_runtime,
    fanout,
    model_of,
    places_of,
    read_caps,
    task_settings,
)
from stepline.ingress.access import Grant, Handshake, authenticate, issue_ticket
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.loop.agent import Agent, Execution
from stepline.loop.close import close
from stepline.loop.programs.remote import StoppedTask, end_wait, sweep_tasks
from stepline.loop.sweep import sweep, sweep_lane
from stepline.model.ids import utc
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext
from stepline.tools.sources import SourcePool

if TYPE_CHECKING:
    from stepline.bundle.descriptor_set import Descriptors
    from stepline.bundle.parts import Parts
    from stepline.model.ids import Lane
    from stepline.model.program.execution import RuntimeProfile, Scope
    from stepline.model.step import Step
    from stepline.ports.channel import Principal
    from stepline.ports.executor import Executor, Job
    from stepline.ports.identity import Identity
    from stepline.ports.model import ModelClient
    from stepline.programs.host import ToolHost
    from stepline.settings import Settings


@dataclass(frozen=True)
class App:
    """Everything a function may do, wired once a process. The agent and the model are made on first use.

    `given` is the model to ask in place of the one that the settings name, `made` the agent in place of the one of the
    bundle that they name. `handed` are the variables for a supervisor that runs elsewhere. Secret.
    """

    settings: Settings
    ports: Ports
    history: History
    given: ModelClient | None = None
    made: Agent | None = None
    handed: Mapping[str, str] = field(default_factory=dict, repr=False)

    def decide(self, step: Step) -> Step:
        from stepline.loop.decide import decide  # noqa: PLC0415 - one function decides, the others need nothing of it

        return decide(self.ports, self.agent, self.model, self.history, step)

    def act(self, step: Step) -> Step:
        from stepline.loop.act import act  # noqa: PLC0415 - one function acts, the others need nothing of it

        return act(self.ports, self.agent, self.history, step)

    def execute(self, step: Step) -> Step:
        from stepline.loop.programs.execute import execute  # noqa: PLC0415 - one function runs programs, the others never do

        return execute(self.ports, self.backend, step)

    def close(self, step: Step) -> Step:
        return close(self.ports, step)

    def sweep(self) -> dict[str, int]:
        return sweep(self.ports) | sweep_tasks(self.ports)

    def sweep_lane(self, lane: Lane) -> str:
        return sweep_lane(self.ports, lane)

    def end_wait(self, stopped: StoppedTask) -> bool:
        return end_wait(self.ports, stopped)

    def authenticate(self, shown: Handshake) -> Principal:
        return authenticate(
            shown,
            allowed_origins=self.settings.allowed_origins,
            tickets=self.ports.tickets,
            verify=lambda token: self.identity.verify(token),  # noqa: PLW0108 - a ticket needs no verifier loaded
        )

    def issue_ticket(self, principal: Principal) -> Grant:
        return issue_ticket(self.ports, principal, self.settings.socket_url)

    def receive(self, connection: str, body: str) -> None:
        from stepline.ingress.message import receive  # noqa: PLC0415 - only the socket reads messages, with pydantic

        receive(self.ports, connection, body)

    def report_internal(self, connection: str, body: str) -> None:
        from stepline.ingress.message import report_internal  # noqa: PLC0415 - as above

        report_internal(self.ports, connection, body)

    @cached_property
    def agent(self) -> Agent:
        """The agent of the bundle that the settings name, unless one is given."""
        if self.made is not None:
            return self.made
        from stepline.bundle.workflow import load_workflow  # noqa: PLC0415 - only decide and act need the tools

        return self.build_agent(load_workflow(self.settings.bundle).parts())

    def build_agent(self, parts: Parts) -> Agent:
        """Return the agent that this deployment makes of a bundle's parts."""
        from stepline.bundle.assembly import build_agent  # noqa: PLC0415 - as above

        agent = build_agent(
            read_caps(self.settings),
            parts=parts,
            runtime=execution_runtime(
                self.settings, self.descriptors if self.settings.descriptors_dir else None
            ),
            packages=self.settings.exec_packages,
            preview_chars=self.settings.exec_text_preview_max_chars,
            fanout=fanout(self.settings),
            strict=self.settings.protocol == "strict",
            version=agent_version(self.settings),
        )
        return replace(agent, execution=self._placed(agent.execution)) if agent.execution else agent

    def _placed(self, execution: Execution) -> Execution:
        """Say where this deployment runs programs, and what it hands to a task."""
        placed = replace(execution, places=places_of(self.settings))
        if execution.profile.placement != "remote":
            return placed
        from stepline.bundle.descriptor_set import encode_payload  # noqa: PLC0415 - as descriptors

        texts = self._scoped_texts(execution.profile.descriptor_payload_scope)
        return replace(placed, descriptors=encode_payload(texts), settings=task_settings(self.settings))

    def _scoped_texts(self, scope: Scope) -> dict[str, str]:
        """Return the descriptors that a supervisor elsewhere gets. Secret."""
        from stepline.bundle.descriptor_set import scope_texts  # noqa: PLC0415 - as descriptors

        return scope_texts(self.descriptor_texts, scope, self.descriptors.bundle_id)

    def backend(self, profile: RuntimeProfile) -> Executor | None:
        """Return what runs the programs of a profile, kept warm; None if this process has none."""
        match profile.backend:
            case "process":
                return self._process
            case "docker":
                return self._docker
            case _:
                return None

    @cached_property
    def _process(self) -> Executor:
        from stepline.adapters.process.executor import ProcessExecutor  # noqa: PLC0415 - as execute

        python, home = Path(self.settings.exec_python), Path(self.settings.exec_home)
        return ProcessExecutor(python=python, home=home, host=self.tool_host)

    @cached_property
    def _docker(self) -> Executor:
        from stepline.adapters.docker.executor import DockerExecutor  # noqa: PLC0415 - as execute

        scope: Scope = "active_bundle"
        if self.agent.execution:
            scope = self.agent.execution.profile.descriptor_payload_scope
        return DockerExecutor(descriptors=self._scoped_texts(scope), environment=self.handed)

    def tool_host(self, job: Job) -> ToolHost:
        """Return the tools that a job's program may call, as its supervisor runs them."""
        from stepline.programs.host import ToolHost  # noqa: PLC0415 - as execute

        request = job.request
        # Most programs call no tool; the log is folded for the first that does.
        timeline = cache(lambda: Timeline.empty(request.lane).extended(job.batches))
        pool = cache(lambda: SourcePool(timeline().sources))

        def context(call_id: str) -> ToolContext:
            return ToolContext(
                lane=request.lane,
                turn=request.turn,
                call_id=call_id,
                iteration=request.iteration,
                ts=utc(self.ports.clock.now()),
                artifacts=self.ports.artifacts,
                timeline=timeline(),
                caps=self.agent.caps,
                model=self.given or model_of(self.settings),
                settings=self.descriptors,
                secrets=self.descriptors,
                search=self.ports.search,
                sources=pool(),
                shelves=self.agent.shelves,
                cancel=job.cancel,
            )

        return ToolHost(
            exec_id=request.exec_id,
            registry=self.agent.registry,
            allowed=request.tools,
            context=context,
            clock=self.ports.clock,
        )

    @cached_property
    def descriptors(self) -> Descriptors:
        """What the deployment's descriptors say to the tools that programs call."""
        from stepline.bundle.descriptor_set import parse_descriptors  # noqa: PLC0415 - needs a YAML parser

        return parse_descriptors(self.descriptor_texts)

    @cached_property
    def descriptor_texts(self) -> dict[str, str]:
        """The descriptors as they were written. Secret."""
        from stepline.adapters.descriptor_file import read_folder  # noqa: PLC0415 - as descriptors

        folder = self.settings.descriptors_dir
        return read_folder(Path(folder)) if folder else {}

    @cached_property
    def model(self) -> ModelClient:
        """The provider's client. Its SDK loads beside the first round's reading: it takes longer than that."""
        if self.given is not None:
            return self.given
        model = model_of(self.settings)
        model.warm(self.agent.role)
        return model

    @cached_property
    def identity(self) -> Identity:
        from stepline.adapters.oidc import OidcIdentity  # noqa: PLC0415 - only the authorizer verifies tokens

        return OidcIdentity(
            issuer=self.settings.oidc_issuer,
            audience=self.settings.oidc_audience,
            jwks_url=self.settings.oidc_jwks_url,
            tenant_claim=self.settings.tenant_claim,
            project_claim=self.settings.project_claim,
        )
