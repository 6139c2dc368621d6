"""Reports of a running tool over stored deltas: posted in few pieces, stored, and resumed by each attempt's lane."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from stepline.adapters.relay import ThreadedRelay
from stepline.errors import DependencyError
from stepline.local.client.change import Reported
from stepline.local.client.state import ClientState
from stepline.model.wire.event import DeltaFrame, is_report_lane
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, Conversation, frames, of, tool
from tests.support.fold import fold_frames
from tests.support.generation import answered, called


class Relayed(Conversation):
    """A conversation whose text goes through the relay of a deployed function, to the deltas of a backend."""

    def __init__(self, backend: Any, run: Any) -> None:
        super().__init__(called("acme.run"), answered("Done."))
        self.use(tool("acme.run", "pure", run))
        relay = ThreadedRelay(
            deltas=backend.deltas,
            subscriptions=self.ports.subscriptions,
            publisher=self.ports.publisher,
            clock=self.clock,
            meter=self.ports.meter,
        )
        self.ports = replace(self.ports, deltas=backend.deltas, relay=relay)
        self.numbers = count()
        self.send()
        self.step = self.decide()

    def resumed(self, state: ClientState) -> tuple[ClientState, list[float]]:
        """Let a client request everything that it lacks; return its state, and how much each new report says is done."""
        inbox = self.resume_as(f"late-{next(self.numbers)}", state)
        after, effects = fold_frames(state, frames(inbox))
        return after, [one.data["done"] for it in effects if isinstance(it, Reported) for one in it.events]


def ended(context: ToolContext) -> ToolOutput:
    return ToolOutput(blocks=(context.result("acme.run", {"status": "ok"}),))


def test_a_client_gets_the_stored_reports_that_it_lacks_and_only_those_of_the_newest_attempt(backend) -> None:
    attempts: list[int] = []

    def run(context: ToolContext) -> ToolOutput:
        attempts.append(1)
        for done in range(5 * len(attempts)):
            context.progress(done, 100)
        raise DependencyError("the service is gone")

    conversation = Relayed(backend, run)
    with pytest.raises(DependencyError):
        conversation.act(conversation.step)
    state, got = conversation.resumed(ClientState(conversation=LANE.conversation))
    assert got == [0, 1, 2, 3, 4]
    assert conversation.resumed(state)[1] == []
    with pytest.raises(DependencyError):
        conversation.act(conversation.now(attempt=1))
    assert conversation.resumed(state)[1] == list(range(10))
    assert conversation.resumed(ClientState(conversation=LANE.conversation))[1] == list(range(10))


def test_stored_reports_are_gone_after_an_hour(backend) -> None:
    def run(context: ToolContext) -> ToolOutput:
        context.progress(1)
        raise DependencyError("the service is gone")

    conversation = Relayed(backend, run)
    with pytest.raises(DependencyError):
        conversation.act(conversation.step)
    backend.clock.pause(3601)
    assert conversation.resumed(ClientState(conversation=LANE.conversation))[1] == []


def test_ten_thousand_reports_are_a_bounded_number_of_posts(backend) -> None:
    def run(context: ToolContext) -> ToolOutput:
        for done in range(1, 10_001):
            context.progress(done, 10_000)
        return ended(context)

    conversation = Relayed(backend, run)
    inbox = conversation.listen()
    conversation.act(conversation.step)
    pieces = [frame for frame in of(DeltaFrame, inbox) if is_report_lane(frame.lane)]
    assert len(pieces) < 200
    effects = fold_frames(ClientState(conversation=LANE.conversation), frames(inbox))[1]
    shown = [one.data["done"] for it in effects if isinstance(it, Reported) for one in it.events]
    assert (shown[0], shown[-1]) == (1, 10_000)
    assert len(shown) < 700
