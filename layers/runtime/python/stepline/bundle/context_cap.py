"""How many tokens a request may have: the first place that says so decides.

    bundle properties   `config.react.context.max_tokens`, then `react.context.max_tokens`
    assembly            `ai.react.context.max_tokens`
    variable            `AI_REACT_CONTEXT_MAX_TOKENS`, 80,000 if it is absent

A number that is not positive counts as 80,000, wherever it stands.
Source: docs/concepts/context.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.bundle.property import look_up, read_whole

DEFAULT_TOKENS: Final = 80_000
IN_PROPS: Final = ("config.react.context.max_tokens", "react.context.max_tokens")
IN_ASSEMBLY: Final = ("ai.react.context.max_tokens",)


def resolve_context_cap(*, props: Mapping[str, Any], assembly: Mapping[str, Any], variable: int) -> int:
    """Return the cap. Raises InputError `bad_setting` for a value that is no whole number."""
    for mapping, paths in ((props, IN_PROPS), (assembly, IN_ASSEMBLY)):
        for path in paths:
            if (found := look_up(mapping, path)) is not None:
                return _positive(read_whole(found, path))
    return _positive(variable)


def _positive(tokens: int) -> int:
    return tokens if tokens > 0 else DEFAULT_TOKENS
