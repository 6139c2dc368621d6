import pytest

from stepline.errors import BusyError, InputError, NotFoundError
from stepline.model.entry import Dropped, Inbound, Opened, Owner
from stepline.model.ids import execution_name, turn_id
from stepline.model.wire.event import EventFrame
from tests.support.conversation import LANE, USER, Conversation, event_types, of
from tests.support.faulty_log import BusyLog, ContendedLog, LosingLog, StaleLog
from tests.support.generation import answered


def conversation_open(**policy: int) -> Conversation:
    conversation = Conversation(**policy)
    conversation.send(id="first")
    return conversation


@pytest.mark.parametrize(
    ("is_open", "kind", "reactive", "text", "event", "entries", "status"),
    [
        (False, "followup", None, "hello", "prompt", ["Inbound", "Opened"], "open"),
        (False, "form", None, "", "form", ["Inbound", "Opened"], "open"),
        (False, "alert", True, "", "alert", ["Inbound", "Opened"], "open"),
        (False, "alert", None, "", "alert", ["Inbound"], "idle"),
        (False, "form", False, "", "form", ["Inbound"], "idle"),
        (False, "steer", None, "shorter", "steer", ["Inbound", "Dropped"], "idle"),
        (False, "stop", None, "", "steer", ["Inbound", "Dropped"], "idle"),
        (True, "followup", None, "hello", "followup", ["Inbound"], "open"),
        (True, "form", None, "", "form", ["Inbound"], "open"),
        (True, "alert", False, "", "alert", ["Inbound"], "open"),
        (True, "steer", None, "shorter", "steer", ["Inbound"], "open"),
        (True, "stop", None, "", "steer", ["Inbound"], "open"),
    ],
)
def test_the_fate_of_an_event_depends_on_the_lane_and_its_kind(
    *,
    is_open: bool,
    kind: str,
    reactive: bool | None,
    text: str,
    event: str,
    entries: list[str],
    status: str,
) -> None:
    conversation = conversation_open() if is_open else Conversation()
    admitted = conversation.send(text, kind=kind, reactive=reactive)
    assert admitted.event == event
    assert [name for name in conversation.kinds()[-1] if name != "Owner"] == entries
    assert conversation.state.status == status


def test_a_fixed_kind_ignores_the_reactive_flag_of_its_sender() -> None:
    with pytest.raises(InputError) as refused:
        Conversation().send(kind="followup", reactive=False)
    assert refused.value.reason == "bad_event"


def test_the_first_message_founds_the_conversation_and_later_ones_do_not() -> None:
    conversation = conversation_open()
    conversation.send(id="second")
    assert conversation.entries(Owner) == [Owner(user=USER)]
    assert conversation.state.owner == USER


def test_opening_names_the_turn_the_epoch_and_the_execution_by_the_batch() -> None:
    conversation = Conversation()
    n = conversation.send(kind="note", id="m0").batch.n + 1
    conversation.send("hello")
    state, (opening,) = conversation.state, conversation.entries(Opened)
    assert (state.epoch, state.claim, state.rendered, state.opened) == (n, n, n, n)
    assert opening.prompts == (n,)
    policy = conversation.ports.policy
    assert (opening.rounds, opening.max_tokens) == (policy.max_iterations, policy.context.budget)
    assert opening.turn == state.turn == turn_id(conversation.clock.now(), f"{LANE.key()}/m1")
    name, step = conversation.take()
    assert name == execution_name(LANE, n)
    assert (step.turn, step.epoch, step.iteration, step.route) == (state.turn, n, 0, "decide")


def test_a_followup_starts_no_second_execution() -> None:
    conversation = conversation_open()
    conversation.send(id="second")
    assert len(conversation.machine.queue) == 1


def test_a_resent_message_is_admitted_once_and_gets_its_first_number() -> None:
    conversation = conversation_open()
    conversation.send(id="second")
    again = conversation.send(id="first")
    assert (again.batch.n, again.event, again.duplicate) == (1, "prompt", True)
    assert conversation.tail.n == 2


def test_a_resent_message_starts_the_execution_its_first_sending_could_not() -> None:
    conversation = conversation_open()
    started = conversation.machine.queue[0]
    conversation.machine.queue.clear()
    conversation.machine._status.clear()
    conversation.send(id="first")
    assert conversation.machine.queue == [started]


def test_a_message_with_a_lost_answer_is_not_its_own_duplicate() -> None:
    conversation = Conversation(log=LosingLog(True))
    admitted = conversation.send()
    assert (admitted.duplicate, conversation.tail.n, len(conversation.machine.queue)) == (False, 1, 1)


def test_a_message_that_never_arrived_is_admitted_on_the_next_try() -> None:
    conversation = Conversation(log=LosingLog(False))
    assert (conversation.send().duplicate, conversation.tail.n) == (False, 1)


def test_two_concurrent_first_messages_share_one_conversation_and_turn() -> None:
    log = BusyLog()
    conversation = Conversation(log=log)
    log.rivals = [lambda: conversation.send(id="faster")]
    conversation.send(id="slower")
    assert [entry.message_id for entry in conversation.entries(Inbound)] == ["faster", "slower"]
    assert [entry.event for entry in conversation.entries(Inbound)] == ["prompt", "followup"]
    assert (
        len(conversation.entries(Owner)),
        len(conversation.entries(Opened)),
        len(conversation.machine.queue),
    ) == (1, 1, 1)


def test_the_stranger_of_two_concurrent_first_messages_is_refused() -> None:
    log = BusyLog()
    conversation = Conversation(log=log)
    log.rivals = [lambda: conversation.send(id="hers", user=USER)]
    with pytest.raises(NotFoundError):
        conversation.send(id="his", user="bob")
    assert conversation.tail.n == 1


def test_the_same_message_twice_at_once_is_admitted_once() -> None:
    log = BusyLog()
    conversation = Conversation(log=log)
    log.rivals = [lambda: conversation.send(id="same")]
    assert conversation.send(id="same").duplicate
    assert conversation.tail.n == 1


@pytest.mark.parametrize("message_id", ["new", "first"])
def test_a_strangers_message_is_refused_like_one_to_a_missing_conversation(message_id: str) -> None:
    conversation = conversation_open()
    with pytest.raises(NotFoundError) as caught:
        conversation.send(id=message_id, user="bob")
    assert str(caught.value) == "no such conversation"
    assert conversation.tail.n == 1


def test_a_stranger_with_a_stale_read_is_refused() -> None:
    conversation = Conversation(log=StaleLog(lag=9))
    conversation.send(id="first")
    for message_id in ("new", "first"):
        with pytest.raises(NotFoundError):
            conversation.send(id=message_id, user="bob")


def test_the_owner_with_a_stale_read_is_admitted() -> None:
    conversation = Conversation(log=StaleLog(lag=9))
    for message_id in ("a", "b", "c"):
        conversation.send(id=message_id)
    assert [entry.message_id for entry in conversation.entries(Inbound)] == ["a", "b", "c"]


def test_each_followup_brings_a_round_up_to_as_many_as_a_turn_has() -> None:
    conversation = conversation_open(max_iterations=2)
    seen = []
    for i in range(4):
        conversation.send(id=f"f{i}")
        seen.append(conversation.state.credits)
    conversation.send(id="steer", kind="steer")
    conversation.send(id="event", kind="note")
    assert seen == [1, 2, 2, 2]
    assert conversation.state.credits == 2


def test_an_open_lane_is_listed_and_an_idle_one_is_not() -> None:
    conversation = Conversation(answered("done"))
    conversation.send(kind="note", id="m0")
    assert conversation.log.open_lanes(before="9999") == []
    conversation.send()
    (mark,) = conversation.log.open_lanes(before="9999")
    assert (mark.lane, mark.n) == (LANE, 2)


def test_the_sender_gets_the_events_of_its_own_message() -> None:
    conversation = Conversation()
    inbox = conversation.connect("k1")
    conversation.send(connection="k1")
    assert event_types(inbox) == [
        "conv.status",
        "chat.conversation.accepted",
        "chat.conversation.title",
        "conv.status",
        "chat.start",
    ]
    assert of(EventFrame, inbox)[0].prev == 0


def test_a_refused_sender_does_not_listen() -> None:
    conversation = conversation_open()
    inbox = conversation.connect("k2", user="bob")
    with pytest.raises(NotFoundError):
        conversation.send(id="new", user="bob", connection="k2")
    conversation.send(id="second")
    assert inbox == []


def test_a_dropped_steer_names_itself_and_why() -> None:
    conversation = Conversation()
    conversation.send(id="s", kind="steer")
    assert conversation.entries(Dropped) == [
        Dropped(n=1, reason="nothing_to_steer", message_id="s", event="steer")
    ]


def test_an_always_contended_lane_asks_the_client_to_retry() -> None:
    log = ContendedLog()
    conversation = Conversation(log=log)
    log.contended = True
    with pytest.raises(BusyError):
        conversation.send()


def test_a_dead_connection_does_not_keep_a_message_out() -> None:
    conversation = Conversation()
    conversation.listen("gone")
    conversation.app.ports.publisher.close("gone")  # type: ignore[attr-defined]  # the memory twin's own
    conversation.send()
    assert conversation.tail.n == 1
    assert conversation.ports.subscriptions.listeners(LANE) == []
