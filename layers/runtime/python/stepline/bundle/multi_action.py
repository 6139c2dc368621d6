"""How many actions a round may take, and which together: the first place that says so decides.

    bundle properties   `config.react.multi_action`, `react.multi_action`, then the same with `react_agent_multiaction`
    assembly            `ai.react.react_agent_multiaction`
    variable            `AI_REACT_AGENT_MULTI_ACTION`, `off` if it is absent

Source: docs/reference/channels.md#several-actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.bundle.property import look_up, refuse
from stepline.model.decision import FANOUT_MODES, FanoutMode
from stepline.protocol.decision.fanout import ACTIONS_MAX, FanoutRule

IN_PROPS: Final = (
    *("config.react.multi_action", "react.multi_action"),
    *("config.react.react_agent_multiaction", "react.react_agent_multiaction"),
)
IN_ASSEMBLY: Final = ("ai.react.react_agent_multiaction",)


def resolve_fanout(
    *,
    props: Mapping[str, Any],
    assembly: Mapping[str, Any],
    variable: FanoutMode,
    max_actions: int = ACTIONS_MAX,
) -> FanoutRule:
    """Return the rule; a cap that is not positive counts as the default. Raises InputError `bad_setting`."""
    most = max_actions if max_actions > 0 else ACTIONS_MAX
    for mapping, paths in ((props, IN_PROPS), (assembly, IN_ASSEMBLY)):
        for path in paths:
            if (found := look_up(mapping, path)) is not None:
                return FanoutRule(mode=_read_mode(found, path), max_actions=most)
    return FanoutRule(mode=variable, max_actions=most)


def _read_mode(value: Any, place: str) -> FanoutMode:
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    mode = FANOUT_MODES.get(word)
    if mode is None:
        refuse(place, f"one of {', '.join(FANOUT_MODES)}")
    return mode
