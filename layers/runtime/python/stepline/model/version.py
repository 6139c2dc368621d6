"""The versions of the agent.

`v3` is one loop. `v2` has a gate before it, which names a new conversation; its rounds take one action each.
Source: docs/concepts/turn.md#two-versions.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

AgentVersion: TypeAlias = Literal["v2", "v3"]

VERSIONS: Final[tuple[AgentVersion, ...]] = get_args(AgentVersion)
