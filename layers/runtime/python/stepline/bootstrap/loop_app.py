"""The app of functions that use the agent: its instructions and tools, its model, and the log that was read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Final

from stepline.adapters.descriptor_file import read_folder
from stepline.bootstrap.app import App
from stepline.bootstrap.choice import bundle_settings, search_secrets
from stepline.bundle.descriptor_set import (
    Descriptors,
    encode_payload,
    parse_descriptors,
    render_stored,
    scope_texts,
)
from stepline.bundle.workflow import blocking, load_workflow
from stepline.errors import SteplineError
from stepline.log.timeline_cache import History
from stepline.metrics import HOOKS_FAILED
from stepline.model.ids import DEFAULT_BUNDLE

if TYPE_CHECKING:
    from stepline.adapters.provider.client import ProviderClient
    from stepline.bundle.parts import LoadHook, Parts
    from stepline.loop.agent import Agent, Execution
    from stepline.model.program.execution import DescriptorScope
    from stepline.ports.executor import Serve
    from stepline.ports.model import ModelClient
    from stepline.tools.context import ToolServices


logger = logging.getLogger(__name__)

BUNDLE_FAILED: Final = "bundle_failed"


class Loads:
    """The hooks `on_bundle_load` that have run in this process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._done: set[LoadHook] = set()

    def once(self, hook: LoadHook | None, services: ToolServices) -> None:
        """Run a hook unless it has already completed. Raises the hook's errors."""
        if hook is None:
            return
        with self._lock:
            if hook in self._done:
                return
            run = blocking(hook) or hook
            run(services)
            self._done.add(hook)


@dataclass(frozen=True)
class LoopApp(App):
    """An app with an agent and its model, both created on first use.

    `given` replaces the model that the settings name, and `made` the agent of the bundle that they name. `bundle` is
    that bundle's name on the stage, "" for the default one.
    """

    runs_tools: ClassVar[bool] = True
    history: History = field(default_factory=History)
    given: ModelClient | None = None
    made: Agent | None = None
    loads: Loads = field(default_factory=Loads)
    bundle: str = ""
    _others: dict[str, LoopApp] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def over(cls, app: App) -> LoopApp:
        """Return an app that shares everything that another one has."""
        return cls(**{own.name: getattr(app, own.name) for own in fields(app) if own.init})

    def of(self, bundle: str) -> LoopApp:
        """Return the app of a conversation's bundle, by name, with this app's history; it is not loaded yet.

        Raises InputError `unknown_bundle`: the deployment has no bundle of this name.
        """
        if bundle == self.bundle:
            return self
        if bundle not in self._others:
            settings = bundle_settings(self.settings, bundle)
            self._others[bundle] = replace(
                self, settings=settings, ports=self.ports.of(bundle), bundle=bundle
            )
        return self._others[bundle]

    @cached_property
    def agent(self) -> Agent:
        """The agent of the bundle that the settings name, unless one is given."""
        return self.made or self.build_agent(load_workflow(self.settings.bundle).parts())

    @property
    def follows_turns(self) -> bool:
        """True if the bundle has a hook after the close; reading this does not create its agent."""
        if self.made:
            return self.made.hooks.post_run_hook is not None
        return load_workflow(self.settings.bundle).post_run_hook is not None

    def follower(self) -> Agent | None:
        """Return the agent if its bundle has a hook after the close.

        For a bundle that cannot be loaded, return None: its turn has ended, and a failed execution would not help. The
        error is logged and counted with its code. Raises temporary errors.
        """
        try:
            return self.agent if self.follows_turns else None
        except Exception as error:
            if isinstance(error, SteplineError) and error.retryable:
                raise
            code = error.reason if isinstance(error, SteplineError) else BUNDLE_FAILED
            logger.exception("bundle not loaded after a turn", extra={"code": code})
            self.ports.meter.count(HOOKS_FAILED)
            return None

    def build_agent(self, parts: Parts) -> Agent:
        """Return this deployment's agent for a bundle's parts, after running `on_bundle_load`."""
        services = DeploymentServices(self)
        self.loads.once(parts.on_load, services)
        from stepline.bootstrap import agent_choice  # noqa: PLC0415 - 40 ms of CPU with the tools, rare in Close and Execute
        from stepline.bundle.assembly import RemoteRules, build_agent  # noqa: PLC0415 - as above

        made = build_agent(
            agent_choice.read_caps(self.settings),
            parts=parts,
            runtime=agent_choice.execution_runtime(
                self.settings, self.descriptors if self.settings.descriptors_dir else None
            ),
            packages=self.settings.exec_packages,
            preview_chars=self.settings.exec_text_preview_max_chars,
            fanout=agent_choice.fanout(self.settings),
            strict=self.settings.protocol == "strict",
            version=agent_choice.agent_version(self.settings),
            layout=agent_choice.context_layout(self.settings),
            remote=RemoteRules(
                configured=agent_choice.mcp_servers(self.settings, self.descriptors),
                timeout_s=self.settings.mcp_timeout_s,
                ttl_s=self.settings.mcp_list_ttl_s,
            ),
        )
        agent = replace(made, services=services, approvals=agent_choice.approvals(self.settings).rule_of)
        return replace(agent, execution=self._placed(agent.execution)) if agent.execution else agent

    def _placed(self, execution: Execution) -> Execution:
        """Add the placement of programs in this deployment, and the variables for a task."""
        from stepline.bootstrap.agent_choice import places_of, task_settings  # noqa: PLC0415 - as in build_agent

        placed = replace(execution, places=places_of(self.settings), bundle=self.settings.bundle)
        if execution.profile.placement != "remote":
            return placed
        scope = execution.profile.descriptor_payload_scope
        return replace(
            placed,
            descriptors=lambda: encode_payload(self.scoped_texts(scope)),
            settings=task_settings(self.settings),
            secrets=cache(partial(search_secrets, self.settings, self.ports.secrets)),
        )

    def scoped_texts(self, scope: DescriptorScope) -> dict[str, str]:
        """Return the descriptors for a remote supervisor, with the stored secrets. Secret."""
        bundle_id = self.descriptors.bundle_id
        scoped = scope_texts(self.descriptor_texts, scope, bundle_id)
        if self.ports.secrets is None:
            return scoped
        active = bundle_id or DEFAULT_BUNDLE
        others = [DEFAULT_BUNDLE, *self.settings.bundles] if scope == "all" else []
        ids = {name: name for name in others} | {self.bundle or DEFAULT_BUNDLE: active}
        return render_stored(self.ports.secrets, ids, active) | scoped

    @cached_property
    def descriptors(self) -> Descriptors:
        """The deployment's descriptors, as tools read them."""
        return parse_descriptors(self.descriptor_texts, bundle_id=self.bundle, stored=self.ports.secrets)

    @cached_property
    def descriptor_texts(self) -> dict[str, str]:
        """The texts of the descriptors. Secret."""
        folder = self.settings.descriptors_dir
        return read_folder(Path(folder)) if folder else {}

    @cached_property
    def model(self) -> ModelClient:
        """The provider's client. It is prepared for the first call while the first round reads."""
        if self.given is not None:
            return self.given
        model = self.provider_model()
        model.warm()
        return model

    @cached_property
    def serve(self) -> Serve:
        """Makes the calls of programs by the function that the settings name."""
        from stepline.adapters.aws.program_call import InvokedCalls  # noqa: PLC0415 - few programs make such calls

        return InvokedCalls(self.settings.serve_arn)

    def provider_model(self) -> ProviderClient:
        """Return a client of the provider; its transport is not loaded yet."""
        from stepline.bootstrap.model_choice import model_of  # noqa: PLC0415 - 4 ms of CPU, rare in Act and Execute

        return model_of(self.settings, self.ports.meter)


@dataclass(frozen=True)
class DeploymentServices:
    """The services of an app for its tools (`ToolServices`), created on first use."""

    app: LoopApp

    @property
    def settings(self) -> Descriptors:
        return self.app.descriptors

    @property
    def secrets(self) -> Descriptors:
        return self.app.descriptors

    @cached_property
    def model(self) -> ModelClient:
        return self.app.given or self.app.provider_model()
