"""The versions of the agent, and the layouts of its requests.

`v3` is one loop. `v2` has a gate before it, which names a new conversation; its rounds take one action each.
Source: docs/concepts/turn.md#two-versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

AgentVersion: TypeAlias = Literal["v2", "v3"]

VERSIONS: Final[tuple[AgentVersion, ...]] = get_args(AgentVersion)

ContextLayout: TypeAlias = Literal["timeline", "journal"]
"""The content of a round's request: the timeline, or the journal of the older decision context.

Source: docs/concepts/journal.md.
"""

CONTEXT_LAYOUTS: Final[tuple[ContextLayout, ...]] = get_args(ContextLayout)


class Layout(NamedTuple):
    """The facts that a layout decides.

    `shows_timeline`: a request holds the timeline's own texts, and a cache keeps them for the next one. Else it holds a
    digest within the budget, however long the timeline is.
    """

    name: ContextLayout
    shows_timeline: bool


TIMELINE: Final = Layout("timeline", shows_timeline=True)
JOURNAL: Final = Layout("journal", shows_timeline=False)
LAYOUTS: Final[Mapping[ContextLayout, Layout]] = MappingProxyType(
    {layout.name: layout for layout in (TIMELINE, JOURNAL)}
)
