"""The composition root: the one place that knows every adapter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from stepline.adapters.anthropic import AnthropicModelClient
from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.machine import StepFunctionsMachine
from stepline.adapters.aws.publisher import GatewayPublisher
from stepline.adapters.aws.secret import secret_text
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import Table
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.machine import MemoryMachine
from stepline.adapters.memory.meter import MemoryMeter
from stepline.adapters.memory.relay import MemoryRelay
from stepline.adapters.model_call import plan_roles
from stepline.adapters.relay import ThreadedRelay
from stepline.adapters.system import SystemClock
from stepline.bundle.round_cap import resolve_round_cap
from stepline.loop.act import act
from stepline.loop.agent import Agent
from stepline.loop.close import close
from stepline.loop.decide import Mind, decide
from stepline.loop.history import History
from stepline.loop.port import Policy, Ports
from stepline.loop.sweep import sweep, sweep_lane
from stepline.tools.context import ReadCaps, fit_read_caps

if TYPE_CHECKING:
    from stepline.model.ids import Lane
    from stepline.model.step import Step
    from stepline.ports.identity import Identity
    from stepline.ports.meter import Meter
    from stepline.ports.model import ModelClient
    from stepline.settings import Settings


WINDOW_TOKENS = 200_000
"""The context window of the models we map by default."""


@dataclass(frozen=True)
class App:
    """Everything a function may do, wired once a process. The agent and the model are made on first use.

    `given` is the model to ask in place of the one that the settings name.
    """

    settings: Settings
    ports: Ports
    history: History
    given: ModelClient | None = None

    def decide(self, step: Step) -> Step:
        return decide(self.ports, self.mind, step)

    def act(self, step: Step) -> Step:
        return act(self.ports, self.agent, self.history, step)

    def close(self, step: Step) -> Step:
        return close(self.ports, step)

    def sweep(self) -> dict[str, int]:
        return sweep(self.ports)

    def sweep_lane(self, lane: Lane) -> str:
        return sweep_lane(self.ports, lane)

    def receive(self, connection: str, body: str) -> None:
        from stepline.loop.ingress import receive  # noqa: PLC0415 - only the socket reads messages, with pydantic

        receive(self.ports, connection, body)

    def report_internal(self, connection: str) -> None:
        from stepline.loop.ingress import report_internal  # noqa: PLC0415 - as above

        report_internal(self.ports, connection)

    @cached_property
    def agent(self) -> Agent:
        """The agent that answers out of the box."""
        from stepline.bundle.default import build_agent  # noqa: PLC0415 - only decide and act need the tools

        return build_agent(read_caps(self.settings))

    @cached_property
    def mind(self) -> Mind:
        """What decides."""
        return Mind(agent=self.agent, model=self.given or self._warm_model(), history=self.history)

    def _warm_model(self) -> ModelClient:
        """Make the provider's client. Its SDK loads beside the first round's reading: it takes longer than that."""
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


def on_aws(settings: Settings, meter: Meter) -> App:
    """Wire the app to AWS, or to an emulator of it; nothing is connected before its first use."""
    clock = SystemClock()
    table = Table(settings.table)
    deltas = DynamoDeltas(table, clock)
    subscriptions = DynamoSubscriptions(table, clock)
    publisher = GatewayPublisher(settings.callback_url)
    ports = Ports(
        log=DynamoLog(table),
        artifacts=S3Artifacts(settings.bucket),
        subscriptions=subscriptions,
        publisher=publisher,
        deltas=deltas,
        relay=ThreadedRelay(deltas=deltas, subscriptions=subscriptions, publisher=publisher, clock=clock),
        machine=StepFunctionsMachine(settings.machine_arn),
        clock=clock,
        meter=meter,
        policy=policy(settings),
    )
    return App(settings=settings, ports=ports, history=History())


def in_memory(
    settings: Settings,
    *,
    log: MemoryLog | None = None,
    model: ModelClient | None = None,
    meter: Meter | None = None,
) -> App:
    """Wire the app to the memory twins; whoever calls it drives the executions itself."""
    clock = MemoryClock()
    deltas, subscriptions, publisher = MemoryDeltas(clock), MemorySubscriptions(clock), MemoryPublisher()
    ports = Ports(
        log=log or MemoryLog(),
        artifacts=MemoryArtifacts(),
        subscriptions=subscriptions,
        publisher=publisher,
        deltas=deltas,
        relay=MemoryRelay(deltas=deltas, subscriptions=subscriptions, publisher=publisher),
        machine=MemoryMachine(),
        clock=clock,
        meter=meter or MemoryMeter(),
        policy=policy(settings),
    )
    return App(settings=settings, ports=ports, history=History(), given=model)


def policy(settings: Settings) -> Policy:
    """Return the loop's limits as the deployment sets them."""
    rounds = resolve_round_cap(
        props=settings.bundle_props, assembly=settings.assembly, variable=settings.max_iterations
    )
    return Policy(max_iterations=rounds, turn_deadline_s=settings.turn_deadline_s)


def read_caps(settings: Settings) -> ReadCaps:
    """Return how much a read may show, as the deployment sets it."""
    return fit_read_caps(
        max_chars=settings.read_visible_max_chars,
        max_tokens=settings.read_visible_max_tokens,
        max_bytes=settings.read_visible_max_bytes,
        context_fraction=settings.read_visible_context_fraction,
        window_tokens=WINDOW_TOKENS,
    )


def model_of(settings: Settings) -> AnthropicModelClient:
    """Return the model client; nothing of the provider's SDK is imported yet."""
    return AnthropicModelClient(
        roles=plan_roles(settings.model_provider, settings.model_roles),
        api_key=lambda: settings.anthropic_api_key or secret_text(settings.model_secret_arn),
        base_url=settings.anthropic_base_url if settings.model_provider == "anthropic" else "",
    )
