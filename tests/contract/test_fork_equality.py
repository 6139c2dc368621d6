"""A fork at each batch of a long conversation has the request, byte for byte, that its origin had there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace as replaced
from typing import Any

from msgspec.structs import replace

from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History, open_segment
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Closed,
    Compacted,
    Pruned,
    Resulted,
)
from stepline.rendering.text_form import STANDARD
from stepline.timeline.fold import Timeline
from tests.support.conversation import LANE, USER
from tests.support.generation import answered, called
from tests.support.small_context import BIG, SmallContext, prose

BATCHES = 300
MAX_TOKENS = 6_000


def long_conversation() -> SmallContext:
    """Return a conversation with files, approvals, hidden results, prunings and compactions."""
    conversation = SmallContext(max_tokens=MAX_TOKENS)
    conversation.ports = replaced(
        conversation.ports, policy=replaced(conversation.ports.policy, seal_batches=16)
    )
    conversation.agent = replaced(
        conversation.agent,
        approvals=lambda spec: "always" if spec.tool_id == "react.write" else "never",
    )
    while conversation.tail.n < BATCHES:
        number = conversation.tail.n
        conversation.texts += [prose(3_000, f"otter {number}"), prose(900)]
        conversation.model.add(
            called(BIG, notes=prose(600)),
            called("react.write", {"path": f"files/{number}.md", "content": prose(400)}),
            called(BIG),
            answered(f"Done with {number}."),
        )
        conversation.send(f"And now {number}?", id=f"m{number}")
        conversation.run()
        _allow(conversation)
        _hide(conversation, number)
    return conversation


def _allow(conversation: SmallContext) -> None:
    asked = conversation.entries(ApprovalRequested)[-1]
    answer = ApprovalAnswer(
        message_id=f"a{conversation.tail.n}", user=USER, call_id=asked.action.call_id, verdict="approved"
    )
    answer_request(conversation.ports, LANE, answer)
    conversation.run()


def _hide(conversation: SmallContext, number: int) -> None:
    shown = [piece.path for piece in conversation.timeline().pieces if piece.path.startswith("tc:")]
    path = next(path for path in reversed(shown) if path.endswith(".result"))
    conversation.model.add(called("react.hide", {"path": path, "replacement": "seen"}), answered("Hidden."))
    conversation.send("Hide it.", id=f"h{number}")
    conversation.run()


def test_a_fork_at_every_batch_of_a_long_conversation_has_the_bytes_of_its_origin() -> None:
    conversation = long_conversation()
    ports, batches = conversation.ports, Journal(conversation.ports, LANE, "test").since(0)
    kinds = {type(entry) for batch in batches for entry in batch.entries}
    assert {Pruned, Compacted, ApprovalAnswered, Resulted, Closed} <= kinds
    assert any(entry.hides for batch in batches for entry in batch.entries if isinstance(entry, Resulted))
    whole = Timeline.empty(LANE)
    sealed = 0
    for batch in batches:
        whole = whole.extended([batch])
        lane = replace(LANE, conversation=f"f-{batch.n}")
        point = ForkPoint(kind="batch", at=str(batch.n))
        first = fork_conversation(ports, LANE, point, user=USER, conversation=lane.conversation)
        segment = first.state.segment
        assert segment == batch.state.segment
        begun = open_segment(ports, lane, segment, STANDARD) if segment else Timeline.empty(lane)
        assert begun is not None
        journal = Journal(ports, lane, "test")
        there = begun.extended(journal.since(segment, upto=batch.n))
        assert replaced(there, lane=LANE, base=0, batches=whole.batches) == whole
        after = History().load(journal, segment=segment)
        sent = "".join(part.text for part in whole.parts.sealed)
        assert "".join(piece.text for piece in after.pieces).startswith(sent)
        assert after.state.status == "idle"
        sealed += bool(segment)
    assert len(batches) >= BATCHES
    assert sealed > BATCHES / 2


class Counted:
    """A port that counts the calls of each method."""

    def __init__(self, port: Any, calls: Counter[str]) -> None:
        self._port, self._calls = port, calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def counted(*args: Any, **fields: Any) -> Any:
            self._calls[name] += 1
            return method(*args, **fields)

        return counted


def count(conversation: SmallContext) -> Counter[str]:
    """Count the calls of log and store from now on."""
    calls = Counter[str]()
    ports = conversation.ports
    log, store = Counted(ports.log, calls), Counted(ports.artifacts, calls)
    conversation.ports = replaced(ports, log=log, artifacts=store)  # type: ignore[arg-type]  # proxies
    return calls


def test_a_fork_is_three_writes_and_its_first_round_has_one_query_more_than_its_origins_next() -> None:
    conversation = long_conversation()
    own, tail = conversation.ports, conversation.tail
    writes = count(conversation)
    fork = replace(LANE, conversation="f")
    point = ForkPoint(kind="batch", at=str(tail.n))
    fork_conversation(conversation.ports, LANE, point, user=USER, conversation="f")
    assert {name: writes[name] for name in ("put", "project")} == {"put": 2, "project": 1}
    reads = []
    for lane in (fork, LANE):
        conversation.ports, conversation.history = own, History()
        conversation.model.add(answered("Here."))
        conversation.send("And now?", id="last", lane=lane)
        _, step = conversation.take()
        calls = count(conversation)
        conversation.decide(step)
        reads.append(calls)
    assert reads[0] - reads[1] == Counter({"since": 1})  # the origin's batches since the segment
    assert not reads[1] - reads[0]
