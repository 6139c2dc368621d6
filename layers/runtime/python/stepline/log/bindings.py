"""Ports and policy: the dependencies of every use case, and the limits it works within."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from stepline.context.rules import ContextRules
from stepline.events.filter import EventFilter
from stepline.metering.ledger import Ledger
from stepline.metering.span import NO_SPAN, Span
from stepline.model.file.attachment import EVENT_MAX_BYTES, TEXT_MAX_CHARS
from stepline.model.program.execution import WorkspaceMode
from stepline.model.tenancy.limits import ScopeLimits
from stepline.model.tenancy.price import Prices
from stepline.model.tenancy.request_rates import RequestRates
from stepline.ports.artifacts import Artifacts, Uploads
from stepline.ports.channel import Broadcast, Publisher, Subscriptions
from stepline.ports.clock import Clock, Meter
from stepline.ports.identity import Tickets
from stepline.ports.log import StageLog
from stepline.ports.machine import Machine
from stepline.ports.mcp.mcp_server import McpServers
from stepline.ports.memory_index import MemoryIndex
from stepline.ports.relay import Deltas, Relay
from stepline.ports.search import WebPages, WebSearch
from stepline.ports.signal import Signals
from stepline.ports.task import Grants, Tasks
from stepline.ports.tenancy.accounts import Accounts, Costs, RateCounter
from stepline.ports.tenancy.erasure import Erasure
from stepline.ports.tracing.traces import Traces

if TYPE_CHECKING:
    from stepline.ports.descriptor import StageSecrets  # the authorizer has no tools


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Limits of a turn. Source: docs/reference/settings.md."""

    max_iterations: int = 15
    round_retries: int = 2
    turn_retries: int = 6
    takeovers: int = 3
    waits: int = 3
    turn_deadline_s: float = 1800.0
    open_turns: int = 0
    """The most turns with an execution at once on the whole stage; further ones are queued. 0 is no limit."""
    absent_after_s: float = 60.0
    append_tries: int = 10
    started_fresh_s: float = 5.0
    limits: ScopeLimits = field(default_factory=ScopeLimits)
    rates: RequestRates = field(default_factory=RequestRates)
    event_credit: int = 1
    finalize_rounds: int = 2
    approval_wait_s: float = 604_800.0
    mcp_task_s: float = 1200.0
    finalize_max_tokens: int = 3000
    seal_batches: int = 64
    seal_bytes: int = 96 * 1024
    message_max_chars: int = TEXT_MAX_CHARS
    message_max_bytes: int = EVENT_MAX_BYTES
    workspace: WorkspaceMode = "custom"
    context: ContextRules = field(default_factory=ContextRules)
    prices: Prices = field(default_factory=Prices)
    models: Mapping[str, str] = field(default_factory=dict)
    """The model of each role, with the default under `*`; used to estimate the cost of a call before it is made."""

    def model_of(self, role: str) -> str:
        """Return the first model of a role; "" if it is not known."""
        return self.models.get(role) or self.models.get("*", "")


class BundleRules(NamedTuple):
    """The rules of one bundle: the limits of its turns, and the client events that may be sent."""

    policy: Policy
    outward: EventFilter


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The loop's ports.

    Without `search` there is no web search, without `pages` no page is fetched, without `memory` no search of memory,
    without `servers` no MCP, without `secrets` only those of descriptors, without `traces` no spans, without `erasure` nothing is erased, and a deleted conversation
    is refused like one that never existed. `span` is that of the step that runs. `outward` filters client events.
    `bundles` are the stage's further bundles by name; `policy` and `outward` are those of its default one.
    """

    log: StageLog
    artifacts: Artifacts
    subscriptions: Subscriptions
    tickets: Tickets
    rate: RateCounter
    accounts: Accounts
    costs: Costs
    publisher: Publisher
    broadcast: Broadcast
    signals: Signals
    deltas: Deltas
    relay: Relay
    machine: Machine
    tasks: Tasks
    grants: Grants
    uploads: Uploads
    clock: Clock
    meter: Meter
    ledger: Ledger = field(default_factory=Ledger)
    search: WebSearch | None = None
    pages: WebPages | None = None
    memory: MemoryIndex | None = None
    erasure: Erasure | None = None
    servers: McpServers | None = None
    secrets: StageSecrets | None = None
    traces: Traces | None = None
    span: Span = NO_SPAN
    policy: Policy = Policy()
    outward: EventFilter = field(default_factory=EventFilter)
    bundles: Mapping[str, BundleRules] = field(default_factory=dict)

    def of(self, bundle: str) -> Ports:
        """Return the ports with the rules of a bundle, or those of the default bundle if the stage no longer has it."""
        rules = self.bundles.get(bundle)
        return replace(self, policy=rules.policy, outward=rules.outward) if rules else self
