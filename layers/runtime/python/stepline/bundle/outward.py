"""Which client events a bundle and a deployment withhold, beyond what never leaves.

    bundle properties   `config.events.withhold`, `events.withhold`
    assembly            `events.withhold`

Each is a list of types. They add up: whoever comes later can withhold more, and nobody can let more pass.
Source: docs/reference/events.md#what-is-withheld.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.bundle.property import look_up, read_texts, refuse
from stepline.events.filter import FOLLOWED, EventFilter, EventRule
from stepline.events.types import ROUTES

IN_PROPS: Final = ("config.events.withhold", "events.withhold")
IN_ASSEMBLY: Final = ("events.withhold",)


def resolve_outward(*, props: Mapping[str, Any], assembly: Mapping[str, Any]) -> EventFilter:
    """Return the filter.

    Raises InputError `bad_setting` for what is no list of types, for a type that there is not (its event would go
    out under the right name), and for one without which a client cannot follow a turn.
    """
    withheld: set[str] = set()
    for mapping, paths in ((props, IN_PROPS), (assembly, IN_ASSEMBLY)):
        for path in paths:
            if (found := look_up(mapping, path)) is not None:
                withheld |= _read(found, path)
    return EventFilter((EventRule(types=frozenset(ROUTES) - withheld),) if withheld else ())


def _read(value: Any, place: str) -> frozenset[str]:
    types = frozenset(read_texts(value, place))
    if not types <= ROUTES.keys():
        refuse(place, "a list of types of client events")
    if types & FOLLOWED:
        refuse(place, f"without {', '.join(sorted(FOLLOWED))}, by which clients follow a turn")
    return types
