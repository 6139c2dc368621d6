"""The gate: before the first round of a new conversation, a model gives it a title.

The title is a separate batch, put under the round's claim before the first decision: an attempt that takes the
round over finds it and does not ask. A gate never fails the turn: if the provider refuses the request, the model
declines, or the user steers meanwhile, the title is the beginning of the first message.
Source: docs/concepts/turn.md#two-versions.
"""

from __future__ import annotations

import logging
from typing import Final

from stepline.errors import ContextLimit, ModelRefused
from stepline.loop.attempt import Attempt, ask_whole
from stepline.model.entry import Titled
from stepline.model.ids import utc
from stepline.model.step import Step
from stepline.model.usage import Usage
from stepline.ports.model import Completion, ModelRequest, Part
from stepline.protocol.parser.channel_parser import read_channels
from stepline.protocol.parser.grammar import THINKING, ChannelSpec
from stepline.timeline.fold import Timeline
from stepline.timeline.working_summary import fit_title

logger = logging.getLogger(__name__)

ROLE: Final = "gate.simple"
MAX_TOKENS: Final = 400
BEGIN_CHARS: Final = 8_000
"""The characters of the conversation's beginning that the model gets for the title."""
CHANNELS: Final = (THINKING, ChannelSpec("output", "text", replace_citations=False))
NOTHING: Final = Completion(text="", stop_reason="", usage=Usage(), model="")


def opening_stage(attempt: Attempt, timeline: Timeline) -> Timeline | Step:
    """Name a new conversation; return the timeline to render, or the step to go to if the round is lost.

    Raises:
        Fenced: another attempt owns the round.
        ModelOverloaded, ModelRateLimited: the round waits.
        DependencyError: the state machine tries again.
    """
    agent, step = attempt.agent, attempt.step
    if not is_new(timeline, step) or not agent.gate:
        return timeline
    at = utc(attempt.ports.clock.now())
    entry = _ask_title(attempt, agent.gate, timeline, turn=step.turn, at=at)
    return attempt.amend(timeline, entry, usage=entry.usage or Usage())


def is_new(timeline: Timeline, step: Step) -> bool:
    """Return True if this is the first round of a conversation without a title."""
    return step.iteration == 0 and len(timeline.history) == 1 and not timeline.state.titled


def _ask_title(attempt: Attempt, gate: str, timeline: Timeline, *, turn: str, at: str) -> Titled:
    """Ask for a title, by the instructions `gate`. Raises the retryable errors of `ModelStream`."""
    begun = "".join(piece.text for piece in timeline.pieces)[:BEGIN_CHARS]
    request = ModelRequest(
        role=ROLE, system=(Part(text=gate),), content=(Part(text=begun),), max_tokens=MAX_TOKENS
    )
    try:
        completion = ask_whole(attempt.asked, request, attempt.watch, attempt.lost)
    except (ContextLimit, ModelRefused) as error:
        logger.warning("a conversation was not named", extra={"code": error.reason})
        completion = NOTHING
    heard = read_channels("" if completion.aborted or completion.declined else completion.text, CHANNELS)
    title = fit_title(" ".join(heard.bodies("output"))) or fit_title(timeline.title) or timeline.title
    said = "\n".join(text for body in heard.bodies("thinking") if (text := body.strip()))
    return Titled(title=title, at=at, turn=turn, text=said or title, usage=completion.cost)
