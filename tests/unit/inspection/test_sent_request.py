"""The request of a round, rendered again from the log: the bytes that were sent, whatever came before or after."""

from __future__ import annotations

import dataclasses
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.model import Fail, Say
from stepline.context.request import digest_request, digest_whole_request
from stepline.errors import ContextLimit, DependencyError, ModelRefused, NotFoundError
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.inspection.request_view import read_request
from stepline.inspection.sent_request import find_decision, read_staged, read_system, read_upto, render_sent
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.model.block import Body
from stepline.model.decision import RoundFacts, shorten_digest
from stepline.model.entry import ApprovalRequested, Compacted, Decided, Pruned, Resulted, SteeredEntry
from stepline.model.path import out_key
from stepline.ports.model import Media, ModelRequest, Part
from stepline.rendering.text_form import STANDARD
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, USER, Conversation, tool
from tests.support.files import PNG, picture
from tests.support.generation import answered, called
from tests.support.small_context import SmallContext, prose
from tests.support.steered_conversation import SteeredConversation

DRAW, LOOK_UP = "test.draw", "test.look_up"
WORDS = "word " * 200


def bare(request: ModelRequest) -> ModelRequest:
    """Return a request without the bytes of its files: their hashes identify them."""
    content = [replace(part, data=b"") if isinstance(part, Media) else part for part in request.content]
    return replace(request, content=tuple(content))


def rendered_again(conversation: Conversation, asked: Sequence[ModelRequest]) -> list[ModelRequest]:
    """Return the request of each round as rendered from the log; each must be one that the model got."""
    sent = {digest_request(request)[:30]: request for request in asked}
    journal, found = Journal(conversation.ports, LANE, "test"), []
    for n in decided(conversation):
        batches = read_upto(journal, n)
        timeline = Timeline.empty(LANE).extended(batches[: batches[-1].state.rendered])
        artifacts = conversation.ports.artifacts
        system, staged = read_system(artifacts, LANE, batches), read_staged(artifacts, LANE, batches[-1])
        again = render_sent(timeline, batches[-1], system=system, staged=staged)
        assert again.equal
        assert again.request == bare(sent[again.sent.sha256])
        found.append(again.request)
    assert found
    return found


def decided(conversation: Conversation) -> list[int]:
    """Return the batches that decide a round."""
    return [
        batch.n
        for batch in conversation.batches()
        if any(isinstance(entry, Decided) for entry in batch.entries)
    ]


def draw(context: ToolContext) -> ToolOutput:
    data = picture()
    digest = hashlib.sha256(data).hexdigest()
    key = out_key(context.lane, context.turn, digest)
    context.artifacts.put(key, data, mime=PNG)
    body = Body(key=key, sha256=digest, size_bytes=len(data), mime=PNG)
    return ToolOutput(blocks=(context.block(DRAW, f"fi:{context.turn}.outputs/a.png", mime=PNG, body=body),))


def look_up(context: ToolContext) -> ToolOutput:
    return ToolOutput(blocks=(context.result(LOOK_UP, WORDS),))


def seen_picture(*script: Any) -> Conversation:
    """Return a conversation that drew a picture and reads it; `script` follows."""
    conversation = Conversation(called(DRAW))
    conversation.use(tool(DRAW, "pure", draw))
    conversation.send("draw")
    conversation.act(conversation.decide())
    path = f"fi:{conversation.state.turn}.outputs/a.png"
    conversation.model.add(called("react.read", {"paths": [path]}), *script)
    return conversation


def test_the_log_renders_each_round_with_plans_and_several_devices() -> None:
    conversation = Conversation(
        called("react.plan", {"mode": "new", "steps": ["look", "report"]}),
        answered("All of it."),
        answered("And more."),
    )
    conversation.send("look and report", timezone="Europe/Zurich")
    conversation.act(conversation.decide())
    conversation.send("for four of us", id="m2", kind="form", source="booking")
    conversation.run()
    conversation.clock.pause(7)
    conversation.send("go on", id="m3", connection="phone")
    conversation.run()
    assert len(rendered_again(conversation, conversation.model.requests)) == 3


def test_a_block_hidden_later_is_in_the_earlier_requests() -> None:
    conversation = Conversation(called(LOOK_UP), called(LOOK_UP), called(LOOK_UP))
    conversation.use(tool(LOOK_UP, "pure", look_up))
    conversation.send("look it up")
    for _ in range(3):
        conversation.act(conversation.decide())
    path = [piece.path for piece in conversation.timeline().pieces if piece.kind == "result"][-1]
    conversation.model.add(called("react.hide", {"path": path, "replacement": "words"}), answered("Hidden."))
    conversation.run()
    assert [one.hides for one in conversation.entries(Resulted)][-1]
    requests = rendered_again(conversation, conversation.model.requests)
    assert [text(request).count(WORDS) for request in requests] == [0, 1, 2, 3, 2]


def text(request: ModelRequest) -> str:
    return "".join(part.text for part in request.content if not isinstance(part, Media))


@pytest.mark.parametrize("pause_s", [1, 400])
def test_the_log_renders_requests_after_pruning_and_compaction(pause_s: float) -> None:
    conversation = SmallContext()
    conversation.turn("one", prose(9_000), prose(9_000))
    conversation.clock.pause(pause_s)
    conversation.turn("two", prose(9_000))
    conversation.talk("three")
    conversation.turn("four", prose(2_000))
    assert conversation.entries(Pruned)
    assert any(entry.status == "completed" for entry in conversation.entries(Compacted))
    rendered_again(conversation, conversation.voices.requests)


def test_the_log_renders_the_smaller_request_after_one_was_too_large() -> None:
    conversation = SmallContext(max_tokens=80_000)
    conversation.turn("one", prose(9_000), prose(9_000))
    conversation.model.add(Fail(error=ContextLimit("too long")))
    conversation.turn("two")
    requests = rendered_again(conversation, conversation.voices.requests)
    assert len(conversation.asked()) == len(requests) + 1


@pytest.mark.parametrize(
    ("meanwhile", "line"),
    [
        (lambda _: None, "[ATTACHED] "),
        (lambda conversation: conversation.model.add(Fail(error=ModelRefused("no"))), "[NOT ATTACHED] "),
        (lambda conversation: conversation.ports.artifacts.objects.clear(), "[NOT ATTACHED] "),
    ],
    ids=["sent", "refused", "gone"],
)
def test_the_log_renders_sent_and_omitted_pictures(
    meanwhile: Callable[[Conversation], None], line: str
) -> None:
    conversation = seen_picture()
    conversation.act(conversation.decide())
    kept = dict(conversation.ports.artifacts.objects)  # type: ignore[attr-defined]  # the memory twin's own
    meanwhile(conversation)
    conversation.model.add(answered("Seen."))
    conversation.run()
    conversation.ports.artifacts.objects.update(kept)  # type: ignore[attr-defined]  # as above
    assert line in text(rendered_again(conversation, conversation.model.requests)[-1])


def test_the_log_renders_a_steered_generation_and_the_finalize_rounds() -> None:
    live = SteeredConversation(answered("A long answer. " * 20), answered("Brief."))
    live.at(3, live.steer)
    live.run()
    assert live.entries(SteeredEntry)
    requests = rendered_again(live, live.model.requests)
    assert "[FINALIZE]" in text(requests[-1])
    assert requests[-1].max_tokens < requests[0].max_tokens


def test_the_log_renders_a_turn_that_waited_for_an_approval() -> None:
    conversation = Conversation(called("bank.pay"), answered("Paid."))
    conversation.use(
        tool(
            "bank.pay",
            "once",
            lambda context: ToolOutput(blocks=(context.result("bank.pay", "paid"),)),
            approval="always",
        )
    )
    conversation.send("pay")
    conversation.run()
    call = conversation.entries(ApprovalRequested)[-1].action.call_id
    conversation.clock.pause(90_000)
    answer_request(
        conversation.ports, LANE, ApprovalAnswer(message_id="a1", user=USER, call_id=call, verdict="approved")
    )
    conversation.run()
    assert len(rendered_again(conversation, conversation.model.requests)) == 2


def test_different_instructions_are_stored_once_each() -> None:
    conversation = Conversation(*[answered("Hello.")] * 3)
    for number, system in enumerate(["be kind", "be kind", "be brief"]):
        conversation.agent = dataclasses.replace(conversation.agent, system=system)
        conversation.send("hello", id=f"m{number}")
        conversation.run()
    requests = rendered_again(conversation, conversation.model.requests)
    assert [request.system[0].text for request in requests] == ["be kind", "be kind", "be brief"]
    stored = list(conversation.app.ports.artifacts.objects.values())  # type: ignore[attr-defined]  # as above
    assert (stored.count(b"be kind"), stored.count(b"be brief")) == (1, 1)


def test_the_log_renders_the_request_to_a_fallback_model() -> None:
    conversation = Conversation(Say(text="", stop_reason="refusal"), answered("Here you are."))
    conversation.model.fallback = "claude-other"
    conversation.send("hello")
    conversation.run()
    assert [one.declined for one in rendered_again(conversation, conversation.model.requests)] == [
        False,
        True,
    ]


def test_the_log_renders_requests_of_fresh_processes_and_a_sealed_log() -> None:
    conversation = Conversation(seal_batches=3)
    for number in range(6):
        conversation.model.add(called("react.plan", {"mode": "new", "steps": ["one"]}), answered("Done."))
        conversation.send("go on", id=f"m{number}")
        while conversation.machine.queue:
            _, step = conversation.take()
            while step.route not in ("done", "stop"):
                conversation.history = History()
                step = conversation.states[step.route](conversation.now())
    assert conversation.state.segment
    assert len(rendered_again(conversation, conversation.model.requests)) == 12


def test_both_forms_of_the_recorded_facts_render_the_same_request() -> None:
    conversation = Conversation(
        called("react.plan", {"mode": "new", "steps": ["look", "report"]}), answered("All of it.")
    )
    conversation.send("look and report", timezone="Europe/Zurich")
    conversation.clock.pause(75)
    conversation.run()
    batches = conversation.batches()
    facts = RoundFacts(max_iterations=conversation.ports.policy.max_iterations)
    system = read_system(conversation.ports.artifacts, LANE, batches)
    for n in decided(conversation):
        whole, sent = batches[n - 1], find_decision(batches[n - 1])[1]
        timeline = Timeline.empty(LANE).extended(batches[: whole.state.rendered])
        request = render_sent(timeline, whole, system=system).request
        last, sha256 = request.content[-1], digest_whole_request(request)
        short = urlsafe_b64encode(bytes.fromhex(sha256)[:16]).rstrip(b"=").decode()
        assert isinstance(last, Part)
        for form in (
            replace(sent, announce=last.text, facts="", digest=sha256),
            replace(sent, announce="", facts=facts, digest=short),
            replace(sent, digest=shorten_digest(digest_request(request))),
        ):
            (decision,) = whole.entries
            again = render_sent(
                timeline, replace(whole, entries=(replace(decision, sent=form),)), system=system
            )
            assert again.equal
            assert again.request == request


def test_a_release_that_renders_differently_is_reported_as_unequal() -> None:
    conversation = Conversation(answered("Hello."))
    conversation.send()
    conversation.run()
    batches = conversation.batches()
    n = decided(conversation)[0]
    other = replace(STANDARD, opening=lambda _: "TURN\n")
    timeline = Timeline.empty(LANE, form=other).extended(batches[: batches[n - 1].state.rendered])
    assert not render_sent(timeline, batches[n - 1], system="").equal


class FullStore(MemoryArtifacts):
    """A store that accepts nothing."""

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        raise DependencyError("no room", key=key)


def test_a_failed_write_of_the_system_part_is_repeated_by_the_next_round() -> None:
    conversation = Conversation(called("react.plan", {"mode": "new", "steps": ["one"]}), answered("Done."))
    whole = conversation.ports
    conversation.ports = dataclasses.replace(whole, artifacts=FullStore())
    conversation.send()
    conversation.act(conversation.decide())
    conversation.ports = whole
    conversation.run()
    first, second = conversation.entries(Decided)
    assert (first.system, len(second.system)) == ("", 64)


@pytest.mark.parametrize("n", [0, 1, 3, 99])
def test_a_batch_without_a_decision_has_no_request(n: int) -> None:
    conversation = Conversation(answered("Hello."))
    conversation.send()
    conversation.run()
    with pytest.raises(NotFoundError) as refused:
        read_request(Journal(conversation.ports, LANE, "test"), n)
    assert refused.value.reason == "round_not_found"
