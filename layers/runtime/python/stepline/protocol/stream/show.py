"""The live view of a generation: channel events in, lane events out, as pure values.

Thinking is shown as it arrives, a decision as far as `live_decision.py` admits it, program text with the
decision that runs it; a summary is for the model only. Every opened lane is closed, in every case. `cut` is
the refusal code of a decision after which nothing can count: the caller then ends the model call.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

from stepline.protocol.decision.fanout import TOO_MANY, Admission
from stepline.protocol.decision.notice import MISPLACED
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel_parser import (
    ChannelClosed,
    ChannelEvent,
    ChannelOpened,
    CloseReason,
    Text,
)
from stepline.protocol.parser.grammar import CODE, DECISION, THINKING
from stepline.protocol.stream.lane import AbortReason, Emit, LaneFacts, LaneWriter
from stepline.protocol.stream.live_decision import LiveDecision

_ABORTED: Final[Mapping[CloseReason, AbortReason]] = {
    "eof": "eof",
    "policy": "policy",
    "cancelled": "cancelled",
    "provider_error": "provider_error",
}


class Show:
    """Shows one generation. `show` the parser's events as they arrive, then `close`; both emit lane events."""

    def __init__(self, rules: RoundRules, emit: Emit, *, withheld: Container[str] = ()) -> None:
        """Show by `rules`; a `withheld` marker's lane never opens."""
        self.cut = ""
        self._withheld = withheld
        self._rules = rules
        self._admission = Admission(rules.fanout, rules.tools, rules.allowed, last_round=rules.last_round)
        self._emit = emit
        self._open: ChannelOpened | None = None
        self._body: list[str] = []  # body of the open instance
        self._feed: Callable[[str], None] = _drop
        self._lane: LaneWriter | None = None  # the open instance's own lane, if it has one
        self._view: LiveDecision | None = None  # the open instance's view, if it is a decision
        self._views: list[LiveDecision] = []  # views of the earlier decisions that are not blank
        self._early_programs: list[str] = []  # programs before every decision

    @property
    def answer(self) -> str:
        """The answer as shown so far, with its citation tokens."""
        return next((view.answer for view in self._all() if view.answer), "")

    @property
    def answered(self) -> bool:
        """True if an answer was shown, and its decision is complete."""
        return any(view.answered for view in self._all())

    def show(self, events: Iterable[ChannelEvent]) -> None:
        """Show the parser's next events."""
        for event in events:
            if type(event) is Text:
                text = event.text
                self._body.append(text)
                self._feed(text)
            elif type(event) is ChannelOpened:
                self._begin(event)
            elif type(event) is ChannelClosed:
                self._end(event.reason)

    def close(self, reason: AbortReason = "") -> None:
        """End the generation; `reason` is set if that is too early. Closing again does nothing."""
        self._end(reason or "eof")
        widgets = [view.widget for view in self._views if view.widget]
        if len(self._views) == len(widgets) == 1 and not reason:
            widgets[0].take_programs(self._early_programs)
            self._early_programs.clear()
        for widget in widgets:
            widget.close(reason)

    def _all(self) -> list[LiveDecision]:
        return [*self._views, self._view] if self._view else self._views

    def _begin(self, opened: ChannelOpened) -> None:
        self._open = opened
        if self.cut:
            return  # the rest of its piece
        match opened.channel:
            case THINKING.name if THINKING.name not in self._withheld:
                name = f"{THINKING.name}.{opened.instance}"
                self._lane = LaneWriter(name, LaneFacts(marker="thinking"), self._emit)
            case DECISION.name:
                self._view = LiveDecision(opened.instance, self._rules, self._ask, self._emit)
                self._feed = self._view.feed
            case CODE.name if self._views and (widget := self._views[-1].widget):
                self._lane = widget.open_code()
        if self._lane:
            self._feed = self._lane.take

    def _ask(self, action: str, tool_id: str) -> str:
        code = self._admission.ask(action, tool_id)
        if code == TOO_MANY:
            self.cut = code
        return code

    def _end(self, reason: CloseReason) -> None:
        """Close the lanes of the open instance."""
        opened, self._open = self._open, None
        body = "".join(self._body)
        self._body.clear()
        self._feed = _drop
        aborted = _abort_reason(reason)
        if self._lane:
            self._lane.close(aborted)
        elif self._view:
            self._view.close(body, aborted)
            if body.strip():
                self._views.append(self._view)
        elif opened and opened.channel == CODE.name and body.strip():
            self._misplace(body)
        self._lane = self._view = None

    def _misplace(self, program: str) -> None:
        """Record a program that follows no decision, or one that has a program already."""
        if not self._views:
            self._early_programs.append(program)
        elif widget := self._views[-1].widget:
            widget.fail(MISPLACED)


def _drop(_text: str) -> None:
    """Discard text that is not shown."""


def _abort_reason(reason: CloseReason) -> AbortReason:
    """Return why the lanes of a channel with this close reason are incomplete; "" if nothing is missing."""
    return _ABORTED.get(reason, "")
