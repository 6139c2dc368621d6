"""The agent as the loop sees it: its instructions, its tools, and how its model is to be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from stepline.model.program.execution import PREVIEW_CHARS, Limits, Placement, RuntimeProfile
from stepline.protocol.decision.fanout import FanoutRule
from stepline.tools.context import ReadCaps, Shelf
from stepline.tools.registry import Registry
from stepline.tools.spec import ToolSpec

DECISION_ROLE: Final = "solver.react.v2.decision.v2.regular"
"""Who is asked what to do in a round, in the map from role to model."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where the agent's programs run, what one run may use, which tools it may call, and what is shown of its texts.

    `places` are where this deployment can run programs. `descriptors` and `settings` are the variables
    that a task is handed for its tools. Secret.
    """

    profile: RuntimeProfile
    limits: Limits
    tools: tuple[str, ...]
    preview_chars: int = PREVIEW_CHARS
    places: frozenset[Placement] = frozenset({"inline"})
    descriptors: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Summariser:
    """Instructions for who sums up: whole turns, and the earlier rounds of an open one. Without them nobody is asked."""

    summary: str = ""
    prefix: str = ""


NO_SUMMARISER: Final = Summariser()


@dataclass(frozen=True)
class Agent:
    """One agent: immutable, the same for every conversation it serves.

    Without `execution` it runs no programs. `temperature` is sent only if it is given: the newest models refuse one.
    `fanout` bounds how many actions a round may have, and which together; its instructions (`system`) say the same.
    `strict` ends a generation that does not begin with its thinking, and runs no call whose JSON had to be mended.
    `gate` are the instructions of the stage that names a new conversation; without them there is none. `summariser`
    instructs who sums up what the context has no room for.
    `shelves` hold what the agent reads outside the conversation, by the family of the paths. `announced` returns the
    lines that a bundle's code wants said in a request, for this request alone.
    """

    system: str
    registry: Registry
    caps: ReadCaps
    execution: Execution | None = None
    role: str = DECISION_ROLE
    max_tokens: int = 20_000
    temperature: float | None = None
    fanout: FanoutRule = field(default_factory=FanoutRule)
    strict: bool = True
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    gate: str = ""
    summariser: Summariser = NO_SUMMARISER
    announced: Callable[[], Sequence[str]] = tuple

    @cached_property
    def callable_ids(self) -> frozenset[str]:
        """The tools that the model itself may call; its programs may call others."""
        return frozenset(spec.tool_id for spec in self.registry.specs if spec.in_react)

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The contracts of the agent's tools by id."""
        return {spec.tool_id: spec for spec in self.registry.specs}
