"""What may leave: every client event passes here, or stays inside.

The rule of the house is the table: an event passes if its type, its step, its route and its status are exactly those
of a row. A deployment can narrow that by rules of its own, which are asked beside it and never instead of it. What no
rule allows is withheld, and so is what a rule fails on: a filter that breaks closes.
Source: docs/reference/events.md#what-is-withheld.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, get_args

from stepline.events.types import TABLE, TERMINAL, Status
from stepline.model.base import Value
from stepline.model.wire.event import ClientEvent

logger = logging.getLogger(__name__)

LISTED: Final = frozenset(
    (row.type, row.step, row.route, status) for row in TABLE for status in get_args(Status)
)
"""Everything an event may call itself."""


FOLLOWED: Final = frozenset({"chat.start", "solver.react.decision", "round.restarted"}) | TERMINAL
"""Types by which a client follows a turn: without them it sees no begin, no end, or the text of two attempts."""


class Rule(Protocol):
    """Judges one event. Whatever is not True withholds it."""

    def passes(self, event: ClientEvent, /) -> bool: ...


class EventRule(Value):
    """A rule by exact names: a side that is given lets only its members pass, one that is not lets all pass."""

    types: frozenset[str] | None = None
    routes: frozenset[str] | None = None
    steps: frozenset[str] | None = None
    statuses: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Refuse a text where a set is meant: `in` would then look for a part of it."""
        for name in self.__struct_fields__:
            side = getattr(self, name)
            if side is not None and not isinstance(side, frozenset):
                raise TypeError(f"{name} is a frozenset of names, not {type(side).__name__}")

    def passes(self, event: ClientEvent, /) -> bool:
        """Tell whether every side that is given has the event's name."""
        return (
            (self.types is None or event.type in self.types)
            and (self.routes is None or event.route in self.routes)
            and (self.steps is None or event.step in self.steps)
            and (self.statuses is None or event.status in self.statuses)
        )


class Sifted(NamedTuple):
    """What passes, in order; how many events a rule failed on."""

    events: tuple[ClientEvent, ...]
    failures: int = 0


@dataclass(frozen=True)
class EventFilter:
    """The table's rule, and those of a deployment, of which each must let an event pass."""

    rules: tuple[Rule, ...] = ()

    def sift(self, events: Iterable[ClientEvent]) -> Sifted:
        """Return the events that may leave. Pure, but for a log line where a rule fails."""
        listed = [event for event in events if is_listed(event)]
        if not self.rules:
            return Sifted(tuple(listed))
        passed: list[ClientEvent] = []
        failures = 0
        for event in listed:
            try:
                allowed = all(rule.passes(event) is True for rule in self.rules)
            except Exception:  # a rule is foreign code: whatever it raises, the event stays inside
                logger.exception("event rule failed", extra={"type": event.type})
                failures += 1
            else:
                if allowed:
                    passed.append(event)
        return Sifted(tuple(passed), failures)


def is_listed(event: ClientEvent) -> bool:
    """Tell whether the table has exactly this type and step, with this route, and whether the status is a word of ours."""
    return (event.type, event.step, event.route, event.status) in LISTED
