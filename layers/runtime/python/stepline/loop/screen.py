"""Writes what a generation shows to the stream of its claim: text to its lane, what lanes there are to a lane of theirs.

That one holds a JSON object a line, so it is stored, sent and resumed by character offset like every other.
A lane's line goes out before its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stepline.ports.relay import RelayStream
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.transcript import ChannelEvent
from stepline.protocol.stream.lane import CONTROL_LANE, AbortReason, LaneEvent, LaneText
from stepline.protocol.stream.show import Show


class Screen:
    """Shows one generation. `close` is its end, also after an error: no lane stays open."""

    def __init__(self, stream: RelayStream, rules: RoundRules) -> None:
        self._push = stream.push
        self._show = Show(rules)

    @property
    def cut(self) -> str:
        """The code behind which nothing of the generation can count; "" while something can."""
        return self._show.cut

    @property
    def answer(self) -> str:
        """The answer as far as it was shown, citations as the model wrote them."""
        return self._show.answer

    @property
    def answered(self) -> bool:
        """Whether an answer was shown, and its decision is complete."""
        return self._show.answered

    def show(self, events: Sequence[ChannelEvent]) -> None:
        """Take the next events of the parser."""
        self._write(self._show.show(events))

    def close(self, reason: AbortReason) -> None:
        """Close every lane, saying why if the generation did not come to its end."""
        self._write(self._show.close(reason))

    def _write(self, events: Iterable[LaneEvent]) -> None:
        for event in events:
            if isinstance(event, LaneText):
                self._push(event.lane, event.text)
            else:
                self._push(CONTROL_LANE, msgspec.json.encode(event).decode() + "\n")
