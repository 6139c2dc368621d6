"""Running spans.

All spans of a turn are one trace, whose id and topmost span are derived from the turn's id: a retry, a take-over and
every function compute the same ids.
Source: docs/how-to/trace-a-turn.md.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from stepline.model.ids import Lane, root_span_id, trace_id
from stepline.ports.clock import Clock
from stepline.ports.tracing.traces import NO_ATTRIBUTES, Attribute, Attributes, EndedSpan, SpanKind, Traces


class Span:
    """A timed operation; without a visit it belongs to no trace and is discarded."""

    def __init__(
        self,
        visit: _Visit | None,
        parent: int,
        name: str,
        attributes: Attributes,
        *,
        kind: SpanKind = "internal",
    ) -> None:
        self._visit = visit
        self._name, self._parent, self._kind = name, parent, kind
        if visit is None:
            return
        self._id = _new_id()
        self._attributes: dict[str, Attribute] = dict(attributes)
        self._began, self._began_s = visit.clock.now(), visit.clock.monotonic_s()
        self._failed, self._over = "", False

    @property
    def traced(self) -> bool:
        """True if the span will be sent."""
        return self._visit is not None

    @property
    def texts(self) -> bool:
        """True if attributes may contain texts of users and of the model."""
        return self._visit is not None and self._visit.traces.texts

    @property
    def provider(self) -> str:
        """The model's provider, by its name in OpenTelemetry's conventions."""
        return self._visit.traces.provider if self._visit else ""

    def begin(
        self, name: str, attributes: Attributes = NO_ATTRIBUTES, *, kind: SpanKind = "internal"
    ) -> Span:
        """Return a new span below this one; it begins now."""
        return Span(self._visit, self._id, name, attributes, kind=kind) if self._visit else self

    def set(self, attributes: Attributes, *, name: str = "") -> None:
        """Add attributes, and rename the span if a name is given."""
        if self._visit:
            self._attributes.update(attributes)
            self._name = name or self._name

    def fail(self, code: str) -> None:
        """Mark the operation as failed, by a code and never by a text."""
        if self._visit:
            self._failed = code

    def seconds(self) -> float:
        """Return the seconds since its beginning."""
        return self._visit.clock.monotonic_s() - self._began_s if self._visit else 0.0

    def end(self) -> None:
        """End the span; calls after the first one do nothing. The end of a visit sends all spans that ended below it."""
        if self._visit is None or self._over:
            return
        self._over = True
        ended = self._began + timedelta(seconds=self.seconds())  # the wall clock may have been set meanwhile
        self._visit.ended.append(
            EndedSpan(
                trace=self._visit.trace,
                id=self._id,
                parent=self._parent,
                name=self._name,
                kind=self._kind,
                attributes=self._attributes,
                began=self._began,
                ended=ended,
                failed=self._failed,
            )
        )
        if self._parent == self._visit.root:  # a visit, not a span below it
            self._visit.traces.send(tuple(self._visit.ended))

    def record(
        self, name: str, attributes: Attributes, *, began: datetime, ended: datetime, failed: str = ""
    ) -> None:
        """Add an already ended span below this one."""
        self._record(_new_id(), name, attributes, began=began, ended=ended, failed=failed)

    def record_turn(
        self, name: str, attributes: Attributes, *, began: datetime, ended: datetime, failed: str = ""
    ) -> None:
        """Add the topmost span, the whole turn."""
        self._record(0, name, attributes, began=began, ended=ended, failed=failed)

    def _record(
        self,
        own: int,
        name: str,
        attributes: Attributes,
        *,
        began: datetime,
        ended: datetime,
        failed: str,
    ) -> None:
        if self._visit is None:
            return
        self._visit.ended.append(
            EndedSpan(
                trace=self._visit.trace,
                id=own or self._visit.root,
                parent=self._id if own else 0,
                name=name,
                kind="internal",
                attributes=attributes,
                began=began,
                ended=ended,
                failed=failed,
            )
        )


class _Visit(NamedTuple):
    """One step of a turn: its trace with the topmost span, and the spans that have ended, from several threads, too."""

    traces: Traces
    clock: Clock
    trace: int
    root: int
    ended: list[EndedSpan]


NO_SPAN: Final = Span(None, 0, "", NO_ATTRIBUTES)


def begin_visit(
    traces: Traces | None, clock: Clock, lane: Lane, turn: str, *, name: str, attributes: Attributes
) -> Span:
    """Return the span of a step, below the turn's topmost one; `NO_SPAN` without traces."""
    if traces is None:
        return NO_SPAN
    visit = _Visit(traces, clock, trace_id(lane, turn), root_span_id(lane, turn), [])
    return Span(visit, visit.root, name, attributes)


def _new_id() -> int:
    return secrets.randbits(64) or 1
