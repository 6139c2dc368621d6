"""A fork's first request has the bytes and the cached prefix that its origin's next one has, up to where they part."""

from __future__ import annotations

from dataclasses import replace as replaced
from itertools import takewhile
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.adapters.memory.log import MemoryLog
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.local.scripted.cache import PromptCache
from stepline.local.scripted.messages_request import Prompt, parse_prompt
from stepline.log.journal import Journal
from stepline.model.batch import Batch
from stepline.model.entry import ApprovalRequested, Compacted, Decided, Entry, Pruned, Resulted
from stepline.model.ids import Lane
from stepline.ports.model import ModelRequest, RoleChoice
from stepline.timeline.fold import Timeline
from tests.contract.test_fork_equality import MAX_TOKENS, long_conversation
from tests.support.budget import budget
from tests.support.conversation import LANE, USER, text_of
from tests.support.generation import answered
from tests.support.small_context import SmallContext

FORK: Final = replace(LANE, conversation="f")
STRIDE: Final = budget(13, 1, nightly=1)
"""A landing forks at each thirteenth batch."""


class Following(NamedTuple):
    """The first request after a batch, its text from the batches up to there, and the reductions in between."""

    request: ModelRequest
    shared: str
    reductions: list[str]


def as_of(conversation: SmallContext, n: int) -> SmallContext:
    """Return the conversation as it was after batch n, in a new process."""
    log = MemoryLog()
    log.batches[LANE.key()] = conversation.log.batches[LANE.key()][:n]
    past = SmallContext(max_tokens=MAX_TOKENS, log=log)
    past.ports = replaced(past.ports, policy=conversation.ports.policy)
    stored: Any = past.ports.artifacts
    stored.objects.update(conversation.ports.artifacts.objects)  # type: ignore[attr-defined]  # the memory twin's own
    past.agent = conversation.agent
    return past


def follow(past: SmallContext, lane: Lane, n: int) -> Following:
    """Send a message in a conversation of n batches; return the first request that follows."""
    past.model.add(*[answered("Here.")] * 3)
    past.send("And now?", id="next", lane=lane)
    past.run()
    if not past.asked():  # its turn is open
        past.drive(past.now())
    if not past.asked():  # and waits for a person
        asked = past.entries(ApprovalRequested)[-1]
        answer = ApprovalAnswer(message_id="yes", user=USER, call_id=asked.action.call_id, verdict="approved")
        answer_request(past.ports, lane, answer)
        past.run()
    batches = Journal(past.ports, lane, "test").since(0)
    rendered = next(one.state.rendered for one in batches if one.n > n and decides(one))
    seen = Timeline.empty(lane).extended(batches[:rendered])
    shared = takewhile(lambda piece: piece.n <= n, seen.pieces)
    later = [entry for batch in batches[n:rendered] for entry in batch.entries if reduces(entry)]
    return Following(
        past.asked()[0], "".join(piece.text for piece in shared), [type(one).__name__ for one in later]
    )


def decides(batch: Batch) -> bool:
    return any(isinstance(entry, Decided) for entry in batch.entries)


def reduces(entry: Entry) -> bool:
    return isinstance(entry, Pruned | Compacted) or (isinstance(entry, Resulted) and bool(entry.hides))


def prompt_of(request: ModelRequest) -> Prompt:
    """Return a request as it goes over the wire."""
    return parse_prompt(AnthropicProvider().plan(request, RoleChoice(model="claude-sonnet-5-5")))


def test_a_fork_at_every_batch_sends_the_request_of_its_origin_and_reads_the_same_cache() -> None:
    conversation = long_conversation()
    requests, cache = iter(conversation.asked()), PromptCache(now_s=lambda: 0.0)
    forks = whole = cached = 0
    for batch in conversation.batches():
        n = batch.n
        if decides(batch):
            cache.commit(cache.look(prompt_of(next(requests)), workspace="w"))
        if n % STRIDE:
            continue
        origin = follow(as_of(conversation, n), LANE, n)
        past = as_of(conversation, n)
        point = ForkPoint(kind="batch", at=str(n))
        fork_conversation(past.ports, LANE, point, user=USER, conversation=FORK.conversation)
        fork = follow(past, FORK, n)
        assert fork.request.system == origin.request.system
        for one in (fork, origin):
            assert text_of(one.request).startswith(one.shared)
        forks += 1
        if fork.reductions != origin.reductions or (batch.state.status == "open" and fork.reductions):
            assert (
                batch.state.status == "open"
            )  # the turn is closed in the fork, so other pieces may be reduced
            continue
        assert fork.shared == origin.shared
        reads = [cache.look(prompt_of(one.request), workspace="w").read for one in (fork, origin)]
        assert reads[0] == reads[1]
        whole += not fork.reductions
        cached += bool(reads[0])
    assert next(requests, None) is None
    assert whole > forks * 3 / 4
    assert cached > forks * 3 / 4
