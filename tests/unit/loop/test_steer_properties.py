"""For any messages at any time: every event has one fate, every call a result, and a steered turn ends soon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.adapters.memory.log import MemoryLog
from stepline.model.batch import STATE_MAX_BYTES, Batch
from stepline.model.entry import (
    Closed,
    Decided,
    Opened,
    Resulted,
    Started,
)
from stepline.model.ids import Lane
from stepline.model.wire.live_event import RULES
from stepline.ports.log import Put
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.budget import budget
from tests.support.conversation import LANE, Conversation, tool
from tests.support.generation import BROKEN, answered, called
from tests.support.log_invariant import homes, requests, steers
from tests.support.steered_conversation import InterruptedModel

ROUNDS = 6
GENERATIONS = {
    "answer": answered("So it is. " * 3),
    "pure": called("test.pure"),
    "once": called("test.once"),
    "early": called("test.early"),
    "plan": called("react.plan", {"steps": ["one"]}),
    "search": called("web_tools.web_search", {"queries": ["otters", "beavers"]}),
    "broken": BROKEN,
}
SAYINGS: dict[str, dict[str, Any]] = {
    "followup": {"kind": "followup", "text": "and that"},
    "form": {"kind": "form", "text": ""},
    "note": {"kind": "note", "text": "by the way"},
    "steer": {"kind": "steer", "text": "be brief"},
    "stop": {"kind": "stop", "text": ""},
}
MOMENTS = 90
"""About the number of moments in a turn of some rounds."""


class Ticking(MemoryLog):
    """Makes two moments of each put: before it and after it."""

    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__()
        self._tick = tick

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        self._tick()
        put = super().put(lane, batch, **fields)
        self._tick()
        return put


class TimedConversation(Conversation):
    """A conversation in which `said` is sent at these moments: puts, pieces of a generation, the middle of a tool."""

    def __init__(self, script: list[str], said: dict[int, str]) -> None:
        self.moment, self.said, self.busy = 0, dict(said), False
        super().__init__(log=Ticking(self.tick), max_iterations=ROUNDS)
        self.model: InterruptedModel = InterruptedModel(*(GENERATIONS[name] for name in script))
        for call in range(len(script)):
            for piece in range(0, 40, 2):
                self.model.planned[call, piece].append(self.tick)
        tools = [("test.pure", "pure", False), ("test.once", "once", False), ("test.early", "pure", True)]
        self.use(*(tool(name, effect, self.work, cancellable=early) for name, effect, early in tools))
        self.send("what is new?", id="m0")
        self.settle()

    def work(self, context: ToolContext) -> ToolOutput:
        self.tick()
        context.check_cancelled()
        return ToolOutput(blocks=(context.result("test", {"status": "ok"}),))

    def tick(self) -> None:
        if self.busy:  # a sent message has its own moments, which are not used
            return
        self.moment += 1
        if name := self.said.pop(self.moment, ""):
            self.say(name)

    def say(self, name: str) -> None:
        self.busy = True
        self.send(**{"id": f"e{self.moment}", **SAYINGS[name]})
        self.busy = False

    def settle(self) -> None:
        """Run to the end; the model answers when the script ends."""
        while self.machine.queue:
            name, step = self.take()
            self.model.add(*[answered("That is all.")] * ROUNDS)
            self.drive(step)
            self.machine.end(name)


def check(conversation: TimedConversation) -> None:
    assert conversation.state.status == "idle"
    for event, places in homes(conversation.batches()):
        kept = not places and RULES[event.event_class].unseen == "kept"
        assert kept or len(places) == 1, event
    entries = [entry for batch in conversation.batches() for entry in batch.entries]
    calls = Counter(a.call_id for e in entries if isinstance(e, Decided) for a in e.actions)
    results = Counter(e.call_id for e in entries if isinstance(e, Resulted))
    assert calls == results
    assert set(calls.values()) <= {1}
    began = Counter(e.call_id for e in entries if isinstance(e, Started))
    assert set(began.values()) <= {1}
    turns = [e.turn for e in entries if isinstance(e, Opened)]
    assert sorted(turns) == sorted(e.turn for e in entries if isinstance(e, Closed))
    assert max(len(msgspec.json.encode(batch.state)) for batch in conversation.batches()) <= STATE_MAX_BYTES
    assert list(steers(conversation.batches())) == []
    assert not list(requests(conversation.ports.artifacts, LANE, conversation.batches()))


@given(
    script=st.lists(st.sampled_from(list(GENERATIONS)), max_size=8),
    said=st.dictionaries(st.integers(1, MOMENTS), st.sampled_from(list(SAYINGS)), max_size=6),
)
@settings(max_examples=budget(30, 1500), deadline=None)
def test_every_event_has_one_fate_and_every_call_a_result(script: list[str], said: dict[int, str]) -> None:
    conversation = TimedConversation(script, said)
    check(conversation)
