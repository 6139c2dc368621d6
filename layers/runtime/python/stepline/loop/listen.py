"""Listen to one generation: take the stream apart and show it, while it comes, to whoever watches."""

from __future__ import annotations

from dataclasses import dataclass

from stepline.loop.port import Ports
from stepline.loop.screen import Screen
from stepline.metrics import FIRST_DELTA_MS
from stepline.model.step import Step
from stepline.ports.model import Completion, ModelClient, ModelRequest
from stepline.protocol.channel import ChannelParser
from stepline.protocol.transcript import Transcript


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A generation as it came, and the answer as far as it was shown."""

    transcript: Transcript
    completion: Completion
    answer: str = ""


def listen(ports: Ports, model: ModelClient, request: ModelRequest, step: Step, claim: int) -> Heard:
    """Stream one answer through the parser to the listeners. Raises what `ModelStream` raises."""
    parser = ChannelParser()
    stream = ports.relay.open(step.lane(), claim)
    screen = Screen(stream)
    asked_s, first = ports.clock.monotonic_s(), True
    try:
        with model.stream(request) as running:
            for piece in running:
                if first:
                    first = False
                    ports.meter.count(FIRST_DELTA_MS, round((ports.clock.monotonic_s() - asked_s) * 1000))
                screen.show(parser.feed(piece))
            completion = running.completion()
        screen.show(parser.close())
    finally:
        stream.close()
    return Heard(transcript=parser.transcript(), completion=completion, answer=screen.answer)
