"""The filter of client events: each event passes here, or is withheld.

The built-in rule is the table: an event passes if its type, its step, its route and its status are exactly
those of a row. A deployment can narrow that by its own rules, which apply in addition to it. An event that no
rule allows is withheld, and so is an event on which a rule fails: a broken filter withholds.
Source: docs/reference/events.md#what-is-withheld.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, get_args

from msgspec.structs import replace

from stepline.events.types import EVENT_TABLE, TERMINAL
from stepline.model.base import Value
from stepline.model.wire.event import ClientEvent, Status

logger = logging.getLogger(__name__)

LISTED: Final = frozenset(
    (row.type, row.step, row.route, status) for row in EVENT_TABLE for status in get_args(Status)
)
"""All allowed combinations of type, step, route and status."""


LANES: Final = frozenset({"thinking"})
"""Lanes that a deployment can withhold, by their marker. The text of all others is in events that clients follow."""

FOLLOWED: Final = TERMINAL | {
    *("chat.start", "solver.react.decision", "round.restarted"),
    *("approval.requested", "approval.answered"),
}
"""Types that a client needs to follow a turn: its beginning, its end, the restart of a stream, and its waits."""


class Rule(Protocol):
    """Decides on one event. Any result except True withholds it."""

    def passes(self, event: ClientEvent, /) -> bool: ...


class EventRule(Value):
    """A rule by exact names: a given field passes only its members, an absent field passes everything."""

    types: frozenset[str] | None = None
    routes: frozenset[str] | None = None
    steps: frozenset[str] | None = None
    statuses: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Reject a string as a field: `in` would match parts of it."""
        for name in self.__struct_fields__:
            side = getattr(self, name)
            if side is not None and not isinstance(side, frozenset):
                raise TypeError(f"{name} is a frozenset of names, not {type(side).__name__}")

    def passes(self, event: ClientEvent, /) -> bool:
        """Return True if every given field contains the event's name."""
        return (
            (self.types is None or event.type in self.types)
            and (self.routes is None or event.route in self.routes)
            and (self.steps is None or event.step in self.steps)
            and (self.statuses is None or event.status in self.statuses)
        )


class Sifted(NamedTuple):
    """The events that pass, in order, and the number of events on which a rule failed."""

    events: tuple[ClientEvent, ...]
    failures: int = 0


@dataclass(frozen=True)
class EventFilter:
    """The table's rule and those of a deployment; an event must pass each of them.

    The text of `lanes` is neither streamed nor stored for a resume, and no event has it.
    """

    rules: tuple[Rule, ...] = ()
    lanes: frozenset[str] = frozenset()

    def sift(self, events: Iterable[ClientEvent]) -> Sifted:
        """Return the events that may be sent. Pure, except for a log line if a rule fails."""
        listed = [self._without_lanes(event) for event in events if is_listed(event)]
        if not self.rules:
            return Sifted(tuple(listed))
        passed: list[ClientEvent] = []
        failures = 0
        for event in listed:
            try:
                allowed = all(rule.passes(event) is True for rule in self.rules)
            except Exception:  # a rule is foreign code: on any exception the event is withheld
                logger.exception("event rule failed", extra={"type": event.type})
                failures += 1
            else:
                if allowed:
                    passed.append(event)
        return Sifted(tuple(passed), failures)

    def _without_lanes(self, event: ClientEvent) -> ClientEvent:
        """Return the event without the text of withheld lanes: a field has the lane's marker as its name."""
        if self.lanes.isdisjoint(event.data):
            return event
        return replace(
            event, data={name: value for name, value in event.data.items() if name not in self.lanes}
        )


def is_listed(event: ClientEvent) -> bool:
    """Return True if the table has this type and step with this route, and the status is a known one."""
    return (event.type, event.step, event.route, event.status) in LISTED
