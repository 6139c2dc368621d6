"""Check that a generation has the shape of a round: thinking first, a decision, nothing outside.

`PrefixGuard` watches the first characters of a stream: they open the thinking channel, or the generation is
refused. The stream is fed to it piece by piece and ended at the first violation, before much is paid for. The
final validation asks the same question of the whole text, so both agree for every way to cut the stream.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from stepline.errors import DecisionError
from stepline.model.decision import Notice
from stepline.protocol.decision.notice import make_notice
from stepline.protocol.parser.channel_parser import Transcript
from stepline.protocol.parser.grammar import DECISION, TAG, THINKING

PREAMBLE_CHARS_MAX = 200
_SHAPE = (
    "Write <channel:thinking>, then <channel:ReactDecisionOutV2> with one JSON object, then <channel:code>."
)


def check_shape(transcript: Transcript, *, strict: bool = True) -> list[Notice]:
    """Return notices for tolerated deviations of a generation's shape.

    Raises DecisionError `decision_missing_protocol_channels`, `decision_preamble_before_first_channel` or
    `decision_first_channel_not_thinking`; the last only if `strict`, where no preamble is tolerated either.
    """
    first, preamble = transcript.first_channel, transcript.preamble
    if strict and (violation := check_prefix(transcript.raw)):
        raise _violation(violation, transcript)
    if not first and transcript.raw.strip():
        raise DecisionError(
            f"The response held no channel, so nothing ran and nothing was shown. {_SHAPE}",
            code="decision_missing_protocol_channels",
            raw_preview=transcript.raw.strip(),
        )
    if len(preamble) > PREAMBLE_CHARS_MAX:
        raise _violation("decision_preamble_before_first_channel", transcript)
    notices = []
    if preamble:
        message = "Text before the first channel was dropped; the rest counts. Begin with <channel:thinking>."
        notices.append(
            make_notice("decision_preamble_before_first_channel", message, **_preamble_facts(transcript))
        )
    if first and first != THINKING.name:
        message = f"The first channel was {first}; it counts all the same. Begin with <channel:thinking>."
        notices.append(make_notice("decision_first_channel_not_thinking", message, first_channel=first))
    return notices + _strays(transcript)


def _violation(violation: Violation, transcript: Transcript) -> DecisionError:
    """Return the error for a generation that was ended because of its beginning."""
    if violation == "decision_first_channel_not_thinking":
        first, raw = transcript.first_channel, transcript.raw
        return DecisionError(
            f"The first channel was {first}, so nothing ran. Begin with <channel:thinking>.",
            code=violation,
            first_channel=first,
            offset=len(raw) - len(raw.lstrip()),
        )
    return DecisionError(
        "Text stood before the first channel, so nothing ran. Begin with <channel:thinking>.",
        code=violation,
        **_preamble_facts(transcript),
    )


def _preamble_facts(transcript: Transcript) -> dict[str, str | int]:
    preamble = transcript.preamble or transcript.raw.strip()
    return {
        "preamble_chars": len(preamble),
        "preamble_preview": preamble,
        "first_channel": transcript.first_channel,
    }


def _strays(transcript: Transcript) -> list[Notice]:
    notices = []
    if strays := transcript.outside_chars - len(transcript.preamble):
        message = f"{strays} characters outside of channels were dropped. Write everything into a channel."
        notices.append(make_notice("text_outside_channels", message, chars=strays))
    if unknown := transcript.unknown_channels:
        message = (
            "A channel that does not exist was dropped with its text; the rest counts. "
            "To mention a channel write its name in backticks, without angle brackets."
        )
        notices.append(make_notice("unknown_channel", message, channels=list(unknown[:8])))
    if count := transcript.implicit_closes:
        message = (
            "A channel was opened before the one before it was closed. Close every channel; they do not nest."
        )
        notices.append(make_notice("channel_not_closed", message, count=count))
    return notices


def check_decisions(transcript: Transcript) -> None:
    """Raise DecisionError `action_schema_error` if there is no decision; blank ones do not count."""
    if not any(body.strip() for body in transcript.bodies(DECISION.name)):
        what = "held no decision" if transcript.raw.strip() else "was empty"
        raise DecisionError(
            f"The response {what}, so nothing ran. {_SHAPE}", code="action_schema_error", decisions=0
        )


Violation: TypeAlias = Literal[
    "", "decision_preamble_before_first_channel", "decision_first_channel_not_thinking"
]

_PREAMBLE: Final = "decision_preamble_before_first_channel"
_NOT_THINKING: Final = "decision_first_channel_not_thinking"
_NO_BLANK: Final = re.compile(r"\S")
_HEAD_CHARS: Final = 128
"""More than the length of the longest tag."""


class PrefixGuard:
    """Watches the head of one stream, up to the end of its first tag.

    A tag that may still become another channel's is waited for, at most its own length, because the notice
    names it.
    """

    __slots__ = ("_decided", "_head", "violation")

    def __init__(self) -> None:
        self.violation: Violation = ""
        self._decided = False
        self._head = ""

    def feed(self, piece: str) -> Violation:
        """Take the next piece; return the violation, "" while there is none. A violation never changes."""
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
    """Return the violation at the beginning of a whole generation, or ""."""
    return PrefixGuard().feed(text)
