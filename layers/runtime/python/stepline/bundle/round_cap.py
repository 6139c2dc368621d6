"""How many rounds a turn may take: the first place that says so decides.

    bundle properties   `config.react.max_iterations`, then `react.max_iterations`
    assembly            `ai.react.max_iterations`
    variable            `AI_REACT_MAX_ITERATIONS`, 15 if it is absent

A number that is not positive counts as 15, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.bundle.property import look_up, read_whole

DEFAULT_ROUNDS: Final = 15
IN_PROPS: Final = ("config.react.max_iterations", "react.max_iterations")
IN_ASSEMBLY: Final = ("ai.react.max_iterations",)


def resolve_round_cap(*, props: Mapping[str, Any], assembly: Mapping[str, Any], variable: int) -> int:
    """Return the cap. Raises InputError `bad_setting` for a value that is no whole number."""
    for mapping, paths in ((props, IN_PROPS), (assembly, IN_ASSEMBLY)):
        for path in paths:
            if (found := look_up(mapping, path)) is not None:
                return _positive(read_whole(found, path))
    return _positive(variable)


def _positive(rounds: int) -> int:
    return rounds if rounds > 0 else DEFAULT_ROUNDS
