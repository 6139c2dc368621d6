"""The agent as the loop sees it: its instructions, its tools, and the parameters of its model calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from stepline.model.block import Produced
from stepline.model.decision import ApprovalRule
from stepline.model.entry import Closed, HookName, Inbound
from stepline.model.program.execution import PREVIEW_CHARS, Placement, RunLimits, RuntimeProfile, ServedGrant
from stepline.model.tenancy.charge import ROUND_OUTPUT_TOKENS
from stepline.model.version import TIMELINE, Layout
from stepline.ports.model import DECISION_ROLE
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.context import NO_SERVICES, ReadCaps, Resolve, Shelf, ToolContext, ToolServices
from stepline.tools.registry import Registry
from stepline.tools.spec import ToolSpec

if TYPE_CHECKING:
    from stepline.log.bindings import Ports
    from stepline.log.timeline_cache import History
    from stepline.tools.mcp.servers import Servers
    from stepline.tools.typed.result_type import ResultType


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Settings of the agent's programs: placement, limits, callable tools, and how much of their texts is shown.

    `served` limits the calls that a function makes for a run.
    `bundle` is the package of the bundle: a program finds its name as BUNDLE_ID, and its files at BUNDLE_ROOT.
    `places` are the placements that this deployment has. `settings` are variables that a task receives for its tools;
    `descriptors` and `secrets` return more, read when a run is handed to its task. Secret.
    """

    profile: RuntimeProfile
    limits: RunLimits
    tools: tuple[str, ...]
    served: ServedGrant = field(default_factory=ServedGrant)
    preview_chars: int = PREVIEW_CHARS
    bundle: str = ""
    places: frozenset[Placement] = frozenset({"inline"})
    descriptors: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Summariser:
    """Instructions for summaries of whole turns, and of an open turn's earlier rounds.

    Without them no model is asked.
    """

    summary: str = ""
    prefix: str = ""


NO_SUMMARISER: Final = Summariser()


@dataclass(frozen=True, kw_only=True)
class HookCall:
    """A run of a hook: its inputs and its user.

    `messages` are the events of the turn so far that the model reads; the first one opened the turn. `closed` is the
    turn's end, which only `post_run_hook` gets. `ports` and `history` belong to the step, for records that a hook makes
    beside its end.
    """

    hook: HookName
    context: ToolContext
    user: str
    messages: tuple[Inbound, ...]
    ports: Ports
    history: History
    closed: Closed | None = None


Hook: TypeAlias = Callable[[HookCall], tuple[Produced, ...]]
"""Runs a bundle's hook; returns its additions to the turn."""


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """The hooks of a bundle, each None if it has none."""

    pre_run_hook: Hook | None = None
    before_round: Hook | None = None
    post_run_hook: Hook | None = None


NO_HOOKS: Final = Hooks()


def own_rule(spec: ToolSpec) -> ApprovalRule:
    """Return the approval rule that a tool declares for its calls."""
    return spec.approval or "never"


@dataclass(frozen=True)
class Agent:
    """One agent: immutable, the same for every conversation it serves.

    Without `execution` it runs no programs. `temperature` has no effect on a model that takes none, as no
    current one does. `fanout` bounds how many actions a round may have, and which together; the instructions
    (`system`) say the same. `strict` ends a generation that does not begin with its thinking, and runs no
    call whose JSON had to be repaired. `gate` holds the instructions of the call that names a new
    conversation; if it is empty, there is no such call. `summariser` holds the instructions for summaries of
    content that the context has no room for. `shelves` hold content outside the conversation that the agent can
    read, by the family of the paths, and `resolvers` find it for a user, by the namespace. `services` are the
    deployment's, for its tools. `announced` returns the lines that a bundle's code adds to the announce of one
    request. The turn runs `hooks` at fixed points. `servers` are its MCP servers, whose tools `loop.mcp` adds for each
    turn; None without any. `approvals` returns the rule that decides whether a tool's calls need a person. In the
    `layout` `journal` the system part is the text that `JournalText` packs. With a `result` type `complete` carries a value.
    """

    system: str
    registry: Registry
    caps: ReadCaps
    execution: Execution | None = None
    role: str = DECISION_ROLE
    max_tokens: int = ROUND_OUTPUT_TOKENS
    temperature: float | None = None
    fanout: FanoutRule = field(default_factory=FanoutRule)
    strict: bool = True
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    resolvers: Mapping[str, Resolve] = field(default_factory=dict)
    services: ToolServices = field(default=NO_SERVICES, repr=False)
    gate: str = ""
    summariser: Summariser = NO_SUMMARISER
    announced: Callable[[], Sequence[str]] = tuple
    hooks: Hooks = NO_HOOKS
    servers: Servers | None = None
    approvals: Callable[[ToolSpec], ApprovalRule] = own_rule
    result: ResultType | None = None
    layout: Layout = TIMELINE

    @cached_property
    def callable_ids(self) -> frozenset[str]:
        """The tools that the model itself may call; its programs may call others."""
        return frozenset(spec.tool_id for spec in self.registry.specs if spec.in_react)

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The contracts of the agent's tools by id."""
        return {spec.tool_id: spec for spec in self.registry.specs}
