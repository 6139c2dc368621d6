import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import Say
from stepline.delivery.resume import pong, resume, running_text
from stepline.errors import InputError, NotFoundError
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.model.wire.event import (
    DELTA_CHARS,
    FRAME_MAX_BYTES,
    DeltaFrame,
    EventFrame,
    PongFrame,
    SyncFrame,
)
from stepline.ports.relay import Delta
from tests.support.conversation import FAR, LANE, USER, Conversation, durable, event_types, frames, of
from tests.support.faulty_log import StaleLog
from tests.support.generation import answered


def ask(
    conversation: Conversation, *, after: int = 0, claim: int = 0, have: dict[str, int] | None = None
) -> list[bytes]:
    """Resume on a new connection; return its frames."""
    inbox = conversation.connect("late")
    resume(
        conversation.ports,
        LANE,
        user=USER,
        connection="late",
        until_s=FAR,
        after=after,
        have=have or {},
        claim=claim,
    )
    return inbox


def hang_up(conversation: Conversation) -> None:
    conversation.app.ports.publisher.close("late")  # type: ignore[attr-defined]  # the memory twin's own


def finished(*answers: str) -> Conversation:
    conversation = Conversation(*(answered(text) for text in answers))
    for i, _ in enumerate(answers):
        conversation.send(f"question {i}", id=f"m{i}")
        conversation.run()
    return conversation


def streaming(**lanes: str) -> Conversation:
    """Return a conversation whose model is writing: its text so far is stored, but no decision."""
    conversation = Conversation()
    conversation.send()
    for name, text in lanes.items():
        for off in range(0, len(text), 5):
            piece = Delta(name=name.replace("_", "."), off=off, text=text[off : off + 5])
            conversation.ports.deltas.put(LANE, conversation.state.claim, piece)
    return conversation


def test_a_client_gets_exactly_what_it_missed() -> None:
    conversation = finished("one", "two")
    everything = durable(ask(conversation))
    assert [n for n, _ in everything] == [1, 2, 3, 4, 5, 6]
    for after in range(7):
        hang_up(conversation)
        assert durable(ask(conversation, after=after)) == everything[after:]


def test_a_replay_is_identical_to_the_live_frames() -> None:
    conversation = Conversation(answered("one"))
    live = conversation.listen("k1")
    conversation.send()
    conversation.run()
    assert of(EventFrame, ask(conversation)) == of(EventFrame, live)


def test_a_replay_ends_with_a_sync_of_the_conversations_state() -> None:
    conversation = finished("one")
    *_, sync = frames(ask(conversation))
    assert sync == SyncFrame(conversation="c-1", n=3)
    conversation.send(id="more")
    hang_up(conversation)
    *_, sync = frames(ask(conversation))
    assert sync == SyncFrame(conversation="c-1", n=4, claim=4, open=True, turn_id=conversation.state.turn)


def test_a_client_that_has_everything_gets_the_sync_alone() -> None:
    conversation = finished("one")
    assert frames(ask(conversation, after=3)) == [SyncFrame(conversation="c-1", n=3)]


def test_a_resuming_client_is_subscribed_from_then_on() -> None:
    conversation = finished("one")
    inbox = ask(conversation, after=3)
    conversation.send(id="more")
    assert event_types(inbox)[-1] == "chat.start"


class InterruptedModel(MemoryLog):
    """Calls `meanwhile` once, right after a read."""

    meanwhile: Callable[[], object] | None = None

    def since(self, lane: Lane, n: int, **fields: Any) -> list[Batch]:
        found = super().since(lane, n, **fields)
        happens, self.meanwhile = self.meanwhile, None
        if happens:
            happens()
        return found


def test_a_batch_appended_during_the_replay_reaches_the_client() -> None:
    log = InterruptedModel()
    conversation = Conversation(answered("one"), log=log)
    conversation.send()
    conversation.run()
    log.meanwhile = lambda: conversation.send(id="meanwhile")
    assert {n for n, _ in durable(ask(conversation))} == {1, 2, 3, 4}


def test_the_replay_is_read_strongly() -> None:
    conversation = Conversation(log=StaleLog(lag=1))
    conversation.send(id="a")
    conversation.send(id="b")
    assert [n for n, _ in durable(ask(conversation))] == [1, 2]


# --- the running text


def test_a_client_without_text_gets_the_whole_running_text() -> None:
    conversation = streaming(thinking_0="I think, so", answer_0="All is quiet.")
    got = {frame.lane: frame.text for frame in of(DeltaFrame, ask(conversation))}
    assert got == {"thinking.0": "I think, so", "answer.0": "All is quiet."}


def test_the_running_text_is_sent_from_the_known_offset_of_each_lane() -> None:
    conversation = streaming(thinking_0="I think, so", answer_0="All is quiet.")
    inbox = ask(conversation, after=1, claim=1, have={"thinking.0": 11, "answer.0": 7})
    assert [(f.lane, f.off, f.text, f.claim) for f in of(DeltaFrame, inbox)] == [("answer.0", 7, "quiet.", 1)]


def test_offsets_of_another_stream_are_ignored() -> None:
    conversation = streaming(answer_0="All is quiet.")
    inbox = ask(conversation, claim=9, have={"answer.0": 7})
    assert [(f.off, f.text) for f in of(DeltaFrame, inbox)] == [(0, "All is quiet.")]


def test_a_client_that_claims_too_much_text_gets_none_and_no_error() -> None:
    conversation = streaming(answer_0="All")
    inbox = ask(conversation, claim=1, have={"answer.0": 10**9})
    assert of(DeltaFrame, inbox) == []
    assert frames(inbox)[-1].n == 1


def test_a_resume_beyond_the_end_is_refused_without_details() -> None:
    conversation = streaming(answer_0="All")
    for after in (2, 10**9):
        with pytest.raises(InputError) as refused:
            ask(conversation, after=after)
        assert refused.value.reason == "resume_beyond_end"
    assert isinstance(frames(ask(conversation, after=1))[-1], SyncFrame)


def test_overlapping_pieces_are_one_text_that_ends_at_a_gap() -> None:
    conversation = Conversation()
    conversation.send()
    for off, text in ((0, "All is"), (4, "is quiet"), (20, "lost")):
        conversation.ports.deltas.put(LANE, 1, Delta(name="answer.0", off=off, text=text))
    assert [f.text for f in of(DeltaFrame, ask(conversation))] == ["All is quiet"]


def test_a_long_running_text_is_sent_in_frames_of_bounded_size() -> None:
    text = "🦜\0" * 5_000
    conversation = streaming(answer_0=text)
    inbox = ask(conversation)
    pieces = of(DeltaFrame, inbox)
    assert "".join(frame.text for frame in pieces) == text
    assert [frame.off for frame in pieces] == list(range(0, len(text), DELTA_CHARS))
    assert max(map(len, inbox)) <= FRAME_MAX_BYTES


def test_a_settled_stream_is_not_sent_again() -> None:
    conversation = Conversation(answered("done"))
    conversation.send()
    conversation.decide()
    assert conversation.ports.deltas.since(LANE, 1) != []
    assert of(DeltaFrame, ask(conversation)) == []
    assert running_text(conversation.ports, LANE, conversation.tail, conversation.state.claim, {}) == []


# --- large answers


def test_an_answer_of_two_hundred_kilobytes_arrives_whole_and_in_parts_that_a_socket_carries() -> None:
    text = 'Ünïcode "quoted" \\ 🦜\n' * 10_000
    conversation = Conversation(Say(text=answered(text), piece_chars=4096))
    conversation.agent = dataclasses.replace(conversation.agent, max_tokens=10**6)
    conversation.send()
    conversation.run()
    inbox = ask(conversation)
    assert max(map(len, inbox)) <= FRAME_MAX_BYTES
    assert next(frame.parts for frame in of(EventFrame, inbox) if frame.n == 3) > 6
    (answer,) = [event for event in durable(inbox)[-1][1] if event.type == "chat.complete"]
    assert answer.data["final_answer"] == text


# --- who may


def refusal(conversation: Conversation, lane: Lane, user: str) -> list[tuple[str, str]]:
    """Return the errors of a resume and a ping."""
    found = []
    for attempt in (
        lambda: resume(
            conversation.ports, lane, user=user, connection="k", until_s=FAR, after=0, have={}, claim=0
        ),
        lambda: pong(conversation.ports, lane, user=user, connection="k"),
    ):
        with pytest.raises(NotFoundError) as caught:
            attempt()
        found.append((caught.value.reason, str(caught.value)))
    return found


def test_a_foreign_conversation_looks_like_one_that_does_not_exist() -> None:
    conversation = finished("one")
    inbox = conversation.connect("k", user="bob")
    absent = Lane(tenant=LANE.tenant, project=LANE.project, conversation="c-404")
    assert (
        refusal(conversation, LANE, "bob")
        == refusal(conversation, absent, USER)
        == refusal(conversation, absent, "bob")
    )
    conversation.send(id="more")
    assert inbox == []


@pytest.mark.parametrize(
    "lane",
    [
        Lane(tenant="other", project=LANE.project, conversation=LANE.conversation),
        Lane(tenant=LANE.tenant, project="other", conversation=LANE.conversation),
    ],
)
def test_the_same_name_in_another_project_is_another_conversation(lane: Lane) -> None:
    refusal(finished("one"), lane, USER)


def test_a_ping_is_answered_with_the_newest_event() -> None:
    conversation = finished("one")
    inbox = conversation.connect("k")
    pong(conversation.ports, LANE, user=USER, connection="k")
    assert frames(inbox) == [PongFrame(conversation="c-1", n=3)]


def test_a_batch_without_events_is_not_the_newest_event() -> None:
    conversation = Conversation()
    conversation.send()
    state = replace(conversation.state, prev=1)
    conversation.log.put(LANE, replace(conversation.tail, n=2, by="other", entries=(), state=state))
    inbox = conversation.connect("k")
    pong(conversation.ports, LANE, user=USER, connection="k")
    assert frames(inbox) == [PongFrame(conversation="c-1", n=1)]
    assert frames(ask(conversation))[-1].n == 1
