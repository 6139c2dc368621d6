"""The user steers while a round makes its request ready: the gate, a compaction, a request that was too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import Fail
from stepline.bundle.assembly import build_agent
from stepline.errors import ContextLimit, ModelOverloaded
from stepline.loop.title import ROLE
from stepline.model.entry import Closed, Compacted, Compacting, Reopened, SteeredEntry, Titled
from stepline.tools.context import ReadCaps
from tests.support.conversation import Conversation
from tests.support.faulty_log import BusyLog
from tests.support.generation import answered, tagged
from tests.support.small_context import SUMMARY, SmallContext
from tests.support.steered_conversation import BEGIN, InterruptedModel, SteeredConversation

GATE = tagged("thinking", "They ask.") + tagged("output", "What is new")


class Gated(SteeredConversation):
    def __init__(self, *script: Any, log: Any = None) -> None:
        super().__init__(*script, log=log)
        self.agent = build_agent(ReadCaps(), parts=WORKFLOW.parts(), version="v2")


@pytest.mark.parametrize("piece", [0, 5, 9])
def test_a_stop_ends_the_gate_and_nothing_else_is_asked(piece: int) -> None:
    live = Gated(GATE)
    live.at(piece, live.stop)
    live.run()
    assert [request.role for request in live.model.requests] == [ROLE]
    (named,) = live.entries(Titled)
    assert (named.title, named.usage.estimated) == ("what is new?", True)
    assert (live.decided, live.closed.reason) == ([], "stop")
    assert live.steered[0].phase == ""


def test_a_stop_after_a_steer_skips_the_gate() -> None:
    log = BusyLog()
    live = Gated(log=log)
    live.steer()
    log.rivals = [live.stop]
    live.run()
    assert live.model.requests == []
    assert live.closed.reason == "stop"


def test_a_steer_ends_the_gate_and_is_in_the_first_request() -> None:
    live = Gated(GATE, answered("Brief."))
    live.at(3, live.steer)
    live.run()
    assert [entry.title for entry in live.entries(Titled)] == ["what is new?"]
    assert "be brief" in live.requested()[1]
    assert (live.model.requests[1].max_tokens, live.closed.reason) == (3000, "steer")
    assert [entry.interrupted for entry in live.decided] == [False]


def crowded(piece: int, happening: Callable[[Conversation], object], *, call: int = 0) -> SmallContext:
    """Run a turn that gets too long for its budget; a function is called during the call that summarises its rounds."""
    conversation = SmallContext(8_000)
    summaries = InterruptedModel()
    summaries.planned[call, piece].append(lambda: happening(conversation))
    conversation.voices.summaries = summaries
    conversation.talk("What do otters eat?")
    return conversation


def test_a_stop_ends_the_summary_and_the_turn() -> None:
    conversation = crowded(2, lambda conversation: conversation.send("", id="x1", kind="stop"))
    (ended,) = conversation.entries(Compacted)
    assert (ended.status, ended.reason) == ("completed", "steered")
    assert SUMMARY not in ended.checkpoint
    assert ended.usage is not None
    assert ended.usage.output_tokens > 0
    assert [type(entry) for batch in conversation.batches()[-2:] for entry in batch.entries] == [
        SteeredEntry,
        Closed,
    ]
    assert conversation.entries(Closed)[-1].reason == "stop"
    decided_after = [n for n, kinds in enumerate(conversation.kinds()) if "Decided" in kinds]
    assert max(decided_after) < conversation.kinds().index(["Compacting"])


def test_an_interrupted_summary_is_discarded() -> None:
    last = len(crowded(0, lambda _: None).asked("context.")) - 1
    conversation = crowded(
        4, lambda conversation: conversation.send("be brief", id="s1", kind="steer"), call=last
    )
    (ended,) = conversation.entries(Compacted)
    assert ended.reason == "steered"
    assert SUMMARY.splitlines()[0] not in ended.checkpoint


def test_a_steer_ends_the_summary_and_the_request_still_fits() -> None:
    conversation = crowded(0, lambda conversation: conversation.send("be brief", id="s1", kind="steer"))
    assert len(conversation.entries(Compacting)) == len(conversation.entries(Compacted)) == 1
    assert conversation.entries(SteeredEntry)[0].phase == ""
    assert conversation.entries(Closed)[-1].reason == "steer"
    assert conversation.asked("context.")[0].role.startswith("context.")
    assert len(conversation.asked("context.")) == 1


def test_a_steer_while_the_provider_finds_the_request_too_large_is_in_the_next() -> None:
    live = SteeredConversation(Fail(error=ContextLimit("too long")), answered("Brief."))
    live.at(BEGIN, live.steer)
    live.run()
    assert (live.closed.reason, live.closed.answer) == ("steer", "Brief.")
    assert [(entry.interrupted, entry.iteration) for entry in live.decided] == [(False, 0)]


def test_a_stop_while_the_provider_is_overloaded_waits_for_no_further_attempt() -> None:
    live = SteeredConversation(*[Fail(error=ModelOverloaded("busy"))] * 3)
    live.at(BEGIN, live.stop)
    assert live.decide().route == "close"
    assert (live.decided, live.entries(Reopened)) == ([], [])
