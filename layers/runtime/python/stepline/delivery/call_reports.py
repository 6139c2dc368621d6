"""The reports of a running tool: events that clients get while it runs, on a lane of their own, and in no batch.

A line of the lane is a client event. The lane is stored, sent and resumed like running text, and its stream has no
other lane, because a call runs when the text of its round is settled. Each attempt has its own lane: clients show the
newest one.

Source: docs/concepts/streaming.md#reports-of-a-running-tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.events.derive_round import tool_reported
from stepline.events.filter import EventFilter
from stepline.events.types import ToolProgress
from stepline.model.batch import Batch, State
from stepline.model.entry import Resulted
from stepline.model.ids import utc
from stepline.model.program.execution import ToolEvent
from stepline.ports.clock import Clock
from stepline.ports.relay import RelayStream

LINE_CHARS: Final = 16 * 1024
LANE_CHARS: Final = 256 * 1024
EVERY: Final = 100
"""The first reports of a progress are all sent, then one in each hundredth of their number: of 10,000 about 560."""


def reports_claim(state: State, since: Callable[[int], Iterable[Batch]]) -> int:
    """Return the claim of the open stream; for an action that runs, it is the batch since which this action is next.

    `since` returns the batches after a number, and is asked only for an action that follows another one.
    """
    if state.cursor.phase != "act" or state.running:
        return state.claim
    before = since(state.decided) if state.cursor.action else ()
    settled = (batch.n for batch in before if any(isinstance(entry, Resulted) for entry in batch.entries))
    return max(state.claim, state.decided, *settled)


@dataclass(kw_only=True)
class CallReports:
    """The reports of one attempt at a call, on lane `name` of `stream`. Several threads may send."""

    stream: RelayStream
    name: str
    outward: EventFilter
    clock: Clock
    tool_id: str
    call_id: str
    turn: str
    _lock: Lock = field(default_factory=Lock)
    _chars: int = 0
    _progressed: int = 0
    _total: float = 0
    _is_done: bool = False
    _is_closed: bool = False

    def send(self, report: ToolEvent) -> None:
        """Send a report, unless the call has ended, has sent too much, or its events are withheld."""
        with self._lock:
            if self._is_closed or not self._is_due(report):
                return
            now = replace(report, at=utc(self.clock.now()))
            events = tool_reported(now, self.tool_id, self.call_id, self.turn)
            for event in self.outward.sift(events).events:
                line = msgspec.json.encode(event).decode() + "\n"
                if len(line) <= LINE_CHARS and self._chars + len(line) <= LANE_CHARS:
                    self._chars += len(line)
                    self.stream.push(self.name, line)

    def close(self, *, settled: bool) -> None:
        """End the lane; `settled`: the call's result is put next, and nothing is left to resume."""
        with self._lock:
            self._is_closed = True
        if settled:
            self.stream.settle()
        self.stream.close()

    def _is_due(self, report: ToolEvent) -> bool:
        """Return True unless this is one of many steps of the same progress."""
        if report.type != ToolProgress.EVENT:
            return True
        done, total = report.data.get("done") or 0, report.data.get("total") or 0
        self._progressed += 1
        is_new = total != self._total or (not self._is_done and 0 < total <= done)
        self._total, self._is_done = total, 0 < total <= done
        return is_new or self._progressed % max(1, self._progressed // EVERY) == 0
