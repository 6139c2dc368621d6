"""The first characters of a generation, watched as they come: they open the thinking channel or nothing counts.

Whoever listens feeds raw pieces and ends the call at the first violation, before much is paid for. The judge asks
the same question of the whole text, so both give the same answer however the stream was cut.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from stepline.protocol.grammar import TAG, THINKING

Violation: TypeAlias = Literal[
    "", "decision_preamble_before_first_channel", "decision_first_channel_not_thinking"
]

_PREAMBLE: Final = "decision_preamble_before_first_channel"
_NOT_THINKING: Final = "decision_first_channel_not_thinking"
_NO_BLANK: Final = re.compile(r"\S")
_HEAD_CHARS: Final = 128
"""More than the longest tag."""


class PrefixGuard:
    """Watches the head of one stream; looks at no character behind its first tag.

    A tag that may still become another channel's is waited for, at most its own length, because the name is what
    the model has to be told.
    """

    __slots__ = ("_decided", "_head", "violation")

    def __init__(self) -> None:
        self.violation: Violation = ""
        self._decided = False
        self._head = ""

    def feed(self, piece: str) -> Violation:
        """Take the next piece; return the violation, "" while there is none. It never changes once it is there."""
        if not self._decided:
            if not self._head and (found := _NO_BLANK.search(piece)):
                self._head = piece[found.start() : found.start() + _HEAD_CHARS]
            elif self._head:
                self._head += piece[:_HEAD_CHARS]
            self._judge()
        return self.violation

    def _judge(self) -> None:
        if not self._head:
            return
        found = TAG.match(self._head)
        if found is None or found["close"]:
            self._decide(_PREAMBLE)
        elif found["name"] and found[0].endswith(">"):
            self._decide("" if found["name"].lower() == THINKING.name else _NOT_THINKING)

    def _decide(self, violation: Violation) -> None:
        self.violation, self._decided, self._head = violation, True, ""


def check_prefix(text: str) -> Violation:
    """Return how the beginning of a whole generation breaks the rule; "" if it does not."""
    return PrefixGuard().feed(text)
