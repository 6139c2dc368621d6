"""Whether a generation has the shape of a round: thinking first, one decision, nothing outside."""

from __future__ import annotations

from stepline.errors import DecisionError
from stepline.model.decision import Notice
from stepline.protocol.grammar import DECISION, THINKING
from stepline.protocol.notice import make_notice
from stepline.protocol.transcript import Transcript

PREAMBLE_CHARS_MAX = 200
_SHAPE = "Write <channel:thinking>, then one <channel:ReactDecisionOutV2> with one JSON object, then <channel:code>."


def check_shape(transcript: Transcript, *, strict: bool) -> list[Notice]:
    """Return what is tolerated about a generation's shape.

    Raises DecisionError `decision_missing_protocol_channels`, `decision_preamble_before_first_channel` or
    `decision_first_channel_not_thinking`; the last only if `strict`, where no preamble is tolerated either.
    """
    first, preamble = transcript.first_channel, transcript.preamble
    if not first and transcript.raw.strip():
        raise DecisionError(
            f"The response held no channel, so nothing ran and nothing was shown. {_SHAPE}",
            code="decision_missing_protocol_channels",
            raw_preview=transcript.raw.strip(),
        )
    notices = []
    if preamble:
        facts: dict[str, str | int] = {
            "preamble_chars": len(preamble),
            "preamble_preview": preamble,
            "first_channel": first,
        }
        code = "decision_preamble_before_first_channel"
        if strict or len(preamble) > PREAMBLE_CHARS_MAX:
            raise DecisionError(
                "Text stood before the first channel, so nothing ran. Begin with <channel:thinking>.",
                code=code,
                **facts,
            )
        message = "Text before the first channel was dropped; the rest counts. Begin with <channel:thinking>."
        notices.append(make_notice(code, message, **facts))
    if first and first != THINKING.name:
        code = "decision_first_channel_not_thinking"
        if strict:
            raise DecisionError(
                f"The first channel was {first}, so nothing ran. Begin with <channel:thinking>.",
                code=code,
                first_channel=first,
            )
        message = f"The first channel was {first}; it counts all the same. Begin with <channel:thinking>."
        notices.append(make_notice(code, message, first_channel=first))
    return notices + _strays(transcript)


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


def single_decision(transcript: Transcript) -> str:
    """Return the body of the one decision; empty instances do not count.

    Raises DecisionError `action_schema_error`.
    """
    bodies = [body for body in transcript.bodies(DECISION.name) if body.strip()]
    if not bodies:
        what = "held no decision" if transcript.raw.strip() else "was empty"
        raise DecisionError(
            f"The response {what}, so nothing ran. {_SHAPE}", code="action_schema_error", decisions=0
        )
    if len(bodies) > 1:
        raise DecisionError(
            f"The response held {len(bodies)} decisions and none of them ran, because a round takes one. "
            "Send the first again alone; the next round takes the next.",
            code="action_schema_error",
            decisions=len(bodies),
        )
    return bodies[0]
