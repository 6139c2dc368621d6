"""The versions of the agent, and the layouts of what it reads.

`v3` is one loop. `v2` has a gate before it, which names a new conversation; its rounds take one action each.
Source: docs/concepts/turn.md#two-versions.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

AgentVersion: TypeAlias = Literal["v2", "v3"]

VERSIONS: Final[tuple[AgentVersion, ...]] = get_args(AgentVersion)

ContextLayout: TypeAlias = Literal["timeline", "journal"]
"""How a round asks: with the timeline, or with the journal of the older decision context. Source: docs/concepts/journal.md."""

CONTEXT_LAYOUTS: Final[tuple[ContextLayout, ...]] = get_args(ContextLayout)
