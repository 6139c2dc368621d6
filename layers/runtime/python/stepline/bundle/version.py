"""Which version of the agent answers: the first place that says so decides.

    bundle properties   `config.react.agent_version`, then `react.agent_version`
    assembly            `ai.react.react_agent_version`
    variable            `AI_REACT_AGENT_VERSION`, `v3` if it is absent

Source: docs/concepts/turn.md#two-versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.bundle.property import look_up, read_choice
from stepline.model.version import VERSIONS, AgentVersion

IN_PROPS: Final = ("config.react.agent_version", "react.agent_version")
IN_ASSEMBLY: Final = ("ai.react.react_agent_version",)

_read = read_choice({version: version for version in VERSIONS})


def resolve_version(
    *, props: Mapping[str, Any], assembly: Mapping[str, Any], variable: AgentVersion
) -> AgentVersion:
    """Return the version. Raises InputError `bad_setting` for a value that names none."""
    for mapping, paths in ((props, IN_PROPS), (assembly, IN_ASSEMBLY)):
        for path in paths:
            if (found := look_up(mapping, path)) is not None:
                version: AgentVersion = _read(found, path)
                return version
    return variable
