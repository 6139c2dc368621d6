"""The app of functions that know the agent: its instructions and tools, its model, and the log it has read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from stepline.adapters.descriptor_file import read_folder
from stepline.bootstrap.agent_choice import (
    agent_version,
    execution_runtime,
    fanout,
    places_of,
    read_caps,
    task_settings,
)
from stepline.bootstrap.app import App
from stepline.bundle.descriptor_set import Descriptors, encode_payload, parse_descriptors, scope_texts
from stepline.bundle.workflow import load_workflow
from stepline.log.timeline_cache import History
from stepline.loop.agent import Agent, Execution

if TYPE_CHECKING:
    from stepline.adapters.anthropic.client import AnthropicModelClient
    from stepline.bundle.parts import Parts
    from stepline.model.program.execution import Scope
    from stepline.ports.model import ModelClient


@dataclass(frozen=True)
class LoopApp(App):
    """An app with an agent and its model, made on first use.

    `given` is the model to ask in place of the one that the settings name, `made` the agent in place of the one of the
    bundle that they name.
    """

    history: History = field(default_factory=History)
    given: ModelClient | None = None
    made: Agent | None = None

    @cached_property
    def agent(self) -> Agent:
        """The agent of the bundle that the settings name, unless one is given."""
        return self.made or self.build_agent(load_workflow(self.settings.bundle).parts())

    def build_agent(self, parts: Parts) -> Agent:
        """Return the agent that this deployment makes of a bundle's parts."""
        from stepline.bundle.assembly import build_agent  # noqa: PLC0415 - Execute seldom needs the tools: 12 ms of CPU

        made = build_agent(
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
        agent = replace(made, services=DeploymentServices(self))
        return replace(agent, execution=self._placed(agent.execution)) if agent.execution else agent

    def _placed(self, execution: Execution) -> Execution:
        """Add where this deployment runs programs, and what it hands to a task."""
        placed = replace(execution, places=places_of(self.settings), bundle=self.settings.bundle)
        if execution.profile.placement != "remote":
            return placed
        texts = self.scoped_texts(execution.profile.descriptor_payload_scope)
        return replace(placed, descriptors=encode_payload(texts), settings=task_settings(self.settings))

    def scoped_texts(self, scope: Scope) -> dict[str, str]:
        """Return the descriptors that a supervisor elsewhere gets. Secret."""
        return scope_texts(self.descriptor_texts, scope, self.descriptors.bundle_id)

    @cached_property
    def descriptors(self) -> Descriptors:
        """The deployment's descriptors, as tools read them."""
        return parse_descriptors(self.descriptor_texts)

    @cached_property
    def descriptor_texts(self) -> dict[str, str]:
        """The texts of the descriptors. Secret."""
        folder = self.settings.descriptors_dir
        return read_folder(Path(folder)) if folder else {}

    @cached_property
    def model(self) -> ModelClient:
        """The provider's client. It is made ready for the first call while the first round reads."""
        if self.given is not None:
            return self.given
        model = self.provider_model()
        model.warm(self.agent.role)
        return model

    def provider_model(self) -> AnthropicModelClient:
        """Return a client of the provider; nothing that reaches it is loaded yet."""
        from stepline.bootstrap.model_choice import model_of  # noqa: PLC0415 - Act and Execute seldom ask one: 4 ms of CPU

        return model_of(self.settings)


@dataclass(frozen=True)
class DeploymentServices:
    """The services of an app for its tools (`ToolServices`), made when the first one asks."""

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
