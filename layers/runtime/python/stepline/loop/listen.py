"""Listen to one generation: take the stream apart and show it, while it comes, to whoever watches.

The call is ended early when nothing that may follow can count: when the user steers, when the generation begins with
anything but its thinking, and when a decision comes that no round has room for. A call that fails behind an answer that was shown to
its end has done what it was for: asked again, the model would give the user another answer.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass

from stepline.errors import SteplineError
from stepline.log.bindings import Ports
from stepline.loop.screen import Screen
from stepline.metrics import FIRST_DELTA_MS
from stepline.model.step import Step
from stepline.ports.model import Completion, ModelClient, ModelRequest, ModelStream
from stepline.ports.signal import Watch
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.decision.shape import PrefixGuard
from stepline.protocol.parser.channel import ChannelParser
from stepline.protocol.parser.transcript import Transcript
from stepline.protocol.stream.lane import AbortReason

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A generation as it came, and the answer as far as it was shown.

    `stopped` is the code for which we ended the call; the transcript then ends where that was known. A call that
    failed behind its answer has the stop reason `cut`. `steered`: the user steered before it came to its end.
    """

    transcript: Transcript
    completion: Completion
    answer: str = ""
    stopped: str = ""
    steered: bool = False


def listen(
    ports: Ports,
    model: ModelClient,
    request: ModelRequest,
    rules: RoundRules,
    *,
    step: Step,
    claim: int,
    watch: Watch,
) -> Heard:
    """Stream one answer through the parser to the listeners, until it ends or a steer is seen. Raises what `ModelStream` raises."""
    parser, guard = ChannelParser(), PrefixGuard() if rules.strict else None
    aborted: AbortReason = "provider_error"
    stopped, steered = "", False
    with closing(ports.relay.open(step.lane(), claim)) as stream:
        screen = Screen(stream, rules)
        try:
            with model.stream(request) as running, watch.calling(running.abort):
                try:
                    stopped = _hear(ports, running, parser, screen, guard=guard, watch=watch)
                except SteplineError as error:
                    told_chars = len(running.completion().text)
                    steered = watch.requested and told_chars > 0
                    if not (screen.answered or steered):
                        error.context["told_chars"] = told_chars
                        raise
                    logger.warning("call failed when it had done its work", extra={"code": error.reason})
                else:
                    aborted = "policy" if stopped else ""
                completion = running.completion()
            if not stopped and completion.aborted:
                steered = True
            if steered:
                aborted = "cancelled"
        finally:
            rest = parser.close(aborted or "eof")
            if guard is None or not guard.violation:  # else what was kept back counts as little as the rest
                screen.show(rest)
            screen.close(aborted)
    return Heard(
        transcript=parser.transcript(),
        completion=completion,
        answer=screen.answer,
        stopped=stopped,
        steered=steered,
    )


def _hear(
    ports: Ports,
    running: ModelStream,
    parser: ChannelParser,
    screen: Screen,
    *,
    guard: PrefixGuard | None,
    watch: Watch,
) -> str:
    """Follow the stream to its end, which may be ours; return the code for which we ended it, if no steer did."""
    asked_s, first = ports.clock.monotonic_s(), True
    stopped = ""
    for piece in running:
        if first:
            first = False
            ports.meter.count(FIRST_DELTA_MS, round((ports.clock.monotonic_s() - asked_s) * 1000))
        if stopped or watch.requested:
            running.abort()
            continue  # what was under way when the call was ended
        events = parser.feed(piece)
        stopped = guard.feed(piece) if guard else ""
        if not stopped:
            screen.show(events)
            stopped = screen.cut
        if stopped:
            logger.info("call ended early", extra={"code": stopped})
            running.abort()
    return stopped
