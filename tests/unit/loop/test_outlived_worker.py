"""Model calls of a worker that was replaced: its turn records them, or its receipt has them from their notes."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from typing import Any

import pytest

from stepline.adapters.memory.model import MemoryModelStream, Say
from stepline.errors import Fenced
from stepline.inspection.receipt import Receipts, make_receipts
from stepline.loop.agent import Hooks
from stepline.loop.decide import decide
from stepline.model.entry import Closed, Contributed
from stepline.model.usage import ModelCall, sum_usages
from stepline.ports.model import DECISION_ROLE, ModelRequest, Part
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered

LATE = answered("This is late.")


def calls(conversation: Conversation) -> list[ModelCall]:
    return [call for batch in conversation.batches() for call in batch.calls]


def receipts(conversation: Conversation) -> Receipts:
    noted = conversation.ports.deltas.notes(LANE, since=0)
    return make_receipts(conversation.batches(), noted=noted)


class Slow:
    """A model that calls a function before its piece number `at`."""

    def __init__(self, at: int, meanwhile: Callable[[], Any]) -> None:
        self.at = at
        self.meanwhile = meanwhile
        self.streams: list[MemoryModelStream] = []

    def stream(self, request: ModelRequest) -> MemoryModelStream:
        slow = self

        class Stream(MemoryModelStream):
            def __iter__(self) -> Iterator[str]:
                for at, piece in enumerate(super().__iter__()):
                    if at == slow.at:
                        slow.meanwhile()
                    yield piece

        self.streams.append(Stream(request, lambda: Say(text=LATE)))
        return self.streams[-1]


def outlive(conversation: Conversation, at: int, *meanwhile: Callable[[], Any]) -> Slow:
    """Decide as a worker during whose call other workers continue."""
    slow = Slow(at, lambda: [one() for one in meanwhile])
    with contextlib.suppress(Fenced):
        decide(conversation.own_ports, conversation.agent, slow, conversation.history, conversation.now())
    return slow


def opened(*script: Any, **policy: Any) -> Conversation:
    conversation = Conversation(*script, **policy)
    conversation.send("what is new?")
    return conversation


def test_the_end_of_a_turn_records_the_calls_of_an_outlived_worker() -> None:
    conversation = opened(answered("Done."))
    slow = outlive(conversation, 0, lambda: conversation.decide(attempt=1))
    conversation.close()
    (closed,) = conversation.entries(Closed)
    made = calls(conversation)
    assert made[-1].usage == slow.streams[0].completion().usage
    assert [call.role for call in conversation.tail.calls] == [DECISION_ROLE]
    assert closed.usage == sum_usages(call.usage for call in made)
    assert conversation.state.input_tokens == closed.usage.prompt_tokens


def test_a_continuing_turn_records_the_calls_of_an_outlived_worker() -> None:
    conversation = opened(answered("One."), answered("Two."))
    outlive(conversation, 0, lambda: conversation.decide(attempt=1))
    conversation.send("And this?", id="m2")
    conversation.close()
    assert len(conversation.tail.calls) == 1
    conversation.close(conversation.decide())
    made = calls(conversation)
    assert len(made) == len({call.id for call in made}) == 3


def test_the_calls_of_both_copies_of_an_attempt_are_recorded() -> None:
    conversation = opened(answered("Done."))
    outlive(conversation, 0, conversation.decide)
    conversation.close()
    assert len(calls(conversation)) == 2


def test_a_receipt_has_calls_made_after_the_end_of_its_turn() -> None:
    conversation = opened(answered("Done."), answered("Next."))
    end = [lambda: conversation.decide(attempt=1), conversation.close]
    slow = outlive(conversation, 0, *end)
    conversation.send("And this?", id="m2")
    conversation.close(conversation.decide())
    late = slow.streams[0].completion().usage
    first, second = receipts(conversation).turns
    (other,) = first.other
    assert (other.kind, other.n, other.tokens.input_tokens) == ("failed", 1, late.input_tokens)
    assert [line.calls for line in first.lines] == [2]
    assert second.other == ()
    assert conversation.state.input_tokens == sum(call.usage.prompt_tokens for call in calls(conversation))


@pytest.mark.parametrize("at", range(1, 4))
def test_a_receipt_counts_a_call_as_it_ended_though_it_was_recorded_before(at: int) -> None:
    conversation = opened(answered("Done."))
    slow = outlive(conversation, at, lambda: conversation.decide(attempt=1), conversation.close)
    cut, whole = calls(conversation)
    late = slow.streams[0].completion().usage
    assert cut.usage.estimated
    assert cut.usage.output_tokens < late.output_tokens
    assert receipts(conversation).tokens.output_tokens == late.output_tokens + whole.usage.output_tokens
    assert receipts(conversation).lines[0].calls == 2


def test_a_call_that_runs_is_in_no_receipt_yet() -> None:
    conversation = opened()
    seen: list[Receipts] = []
    outlive(conversation, 3, lambda: seen.append(receipts(conversation)))
    assert seen[0].lines == ()
    assert receipts(conversation).lines[0].calls == 1


def test_a_post_run_hooks_calls_stay_with_its_own_turn() -> None:
    conversation = opened("A thought of some length.", answered("Two."))

    def think(call: Any) -> tuple[()]:
        if conversation.machine.queue:
            request = ModelRequest(role="test.hook", system=(), content=(Part(text="?"),), max_tokens=90)
            with call.context.model.stream(request) as running:
                pieces = iter(running)
                next(pieces)
                conversation.run()
                list(pieces)
        return ()

    services = type("Services", (), {"model": conversation.model, "settings": None, "secrets": None})()
    conversation.agent = changed(conversation.agent, hooks=Hooks(post_run_hook=think), services=services)
    conversation.take()
    conversation.send(id="m2")
    conversation.close(error={"Error": "States.Timeout"})  # which opens the next turn
    failed, done = conversation.entries(Closed)
    assert [[line.role for line in end.bill] for end in (failed, done)] == [[], [DECISION_ROLE]]
    hooked = [
        batch for batch in conversation.batches() if any(isinstance(e, Contributed) for e in batch.entries)
    ]
    (call,) = (call for batch in hooked for call in batch.calls)
    assert (call.role, call.usage.estimated) == ("test.hook", False)
