"""Settings that a bundle and the assembly may override: the first source with a value decides.

The sources of a value, strongest first: the bundle's properties, the assembly, the setting. In the properties,
`config.<path>` precedes the bare path. Null is absent. Only withheld events add up instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from stepline.bundle.property import look_up, read_choice, read_texts, read_whole, reject_setting
from stepline.events.filter import FOLLOWED, LANES, EventFilter, EventRule
from stepline.events.types import EVENT_ROUTES
from stepline.model.decision import FANOUT_MODES, FanoutMode
from stepline.model.version import CONTEXT_LAYOUTS, VERSIONS, AgentVersion, ContextLayout

T = TypeVar("T")


class Override(NamedTuple, Generic[T]):
    """One value: its paths in properties and assembly, its setting's variable, its reader, its default.

    `read` takes a value and its path, and raises InputError `bad_setting`; None becomes `default`.
    """

    props: tuple[str, ...]
    assembly: str
    setting: str
    read: Callable[[Any, str], T | None]
    default: T

    def resolve(self, *, props: Mapping[str, Any], assembly: Mapping[str, Any], setting: T) -> T:
        """Return the value. Raises InputError `bad_setting`, naming the path."""
        path, said = next(self.find(props, assembly), (self.setting, setting))
        value = self.read(said, path)
        return self.default if value is None else value

    def find(self, props: Mapping[str, Any], assembly: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the paths that have a value, strongest first, each with the value."""
        paths = [(props, f"{prefix}{path}") for path in self.props for prefix in ("config.", "")]
        for mapping, path in (*paths, (assembly, self.assembly)):
            if (said := look_up(mapping, path)) is not None:
                yield path, said


def _read_cap(value: Any, path: str) -> int | None:
    number = read_whole(value, path)
    return number if number > 0 else None


def _read_seconds(value: Any, path: str) -> int:
    if (number := read_whole(value, path)) < 0:
        reject_setting(path, "a number of seconds, or 0 for none")
    return number


def _read_mode(value: Any, path: str) -> FanoutMode:
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    mode = FANOUT_MODES.get(word)
    if mode is None:
        reject_setting(path, f"one of {', '.join(FANOUT_MODES)}")
    return mode


def _read_types(value: Any, path: str) -> frozenset[str]:
    """Return types of client events, and markers of lanes.

    Unknown ones are refused, since nothing would be withheld; so are those that a client needs to
    follow a turn.
    """
    types = frozenset(read_texts(value, path))
    if not types <= EVENT_ROUTES.keys() | LANES:
        reject_setting(path, f"a list of types of client events and lanes ({', '.join(LANES)})")
    if types & FOLLOWED:
        reject_setting(path, f"without {', '.join(sorted(FOLLOWED))}, by which clients follow a turn")
    return types


ROUND_CAP: Final = Override(
    props=("react.max_iterations",),
    assembly="ai.react.max_iterations",
    setting="AI_REACT_MAX_ITERATIONS",
    read=_read_cap,
    default=15,
)
"""The maximum number of rounds of a turn."""

CONTEXT_CAP: Final = Override(
    props=("react.context.max_tokens",),
    assembly="ai.react.context.max_tokens",
    setting="AI_REACT_CONTEXT_MAX_TOKENS",
    read=_read_cap,
    default=80_000,
)
"""The maximum number of tokens of a request. Source: docs/concepts/context.md."""

CACHE_TTL: Final = Override(
    props=("react.cache_ttl_seconds",),
    assembly="ai.react.cache_ttl_seconds",
    setting="STEPLINE_CACHE_TTL_S",
    read=_read_seconds,
    default=300,
)
"""The time for which the provider keeps a prompt, in seconds; 0: never shorten for that reason."""

MULTI_ACTION: Final[Override[FanoutMode]] = Override(
    props=("react.multi_action", "react.react_agent_multiaction"),
    assembly="ai.react.react_agent_multiaction",
    setting="AI_REACT_AGENT_MULTI_ACTION",
    read=_read_mode,
    default="off",
)
"""The mode for several actions in a round. Source: docs/reference/channels.md#several-actions."""

AGENT_VERSION: Final[Override[AgentVersion]] = Override(
    props=("react.agent_version",),
    assembly="ai.react.react_agent_version",
    setting="AI_REACT_AGENT_VERSION",
    read=read_choice({version: version for version in VERSIONS}),
    default="v3",
)
"""The version of the agent. Source: docs/concepts/turn.md#two-versions."""

LAYOUT: Final[Override[ContextLayout]] = Override(
    props=("react.context.layout",),
    assembly="ai.react.context.layout",
    setting="AI_REACT_CONTEXT_LAYOUT",
    read=read_choice({layout: layout for layout in CONTEXT_LAYOUTS}),
    default="timeline",
)
"""The layout of a request. Source: docs/concepts/journal.md."""

WITHHELD: Final[Override[frozenset[str]]] = Override(
    props=("events.withhold",), assembly="events.withhold", setting="", read=_read_types, default=frozenset()
)
"""Types of client events, and lanes, that are withheld. Source: docs/reference/events.md#what-is-withheld."""


def resolve_outward(*, props: Mapping[str, Any], assembly: Mapping[str, Any]) -> EventFilter:
    """Return the filter of client events. Raises InputError `bad_setting`, naming the path.

    Withheld types add up over all sources: a weaker source can withhold more, and none can allow more.
    """
    withheld = WITHHELD.default.union(
        *(_read_types(said, path) for path, said in WITHHELD.find(props, assembly))
    )
    types = withheld - LANES
    return EventFilter((EventRule(types=frozenset(EVENT_ROUTES) - types),) if types else (), withheld & LANES)
