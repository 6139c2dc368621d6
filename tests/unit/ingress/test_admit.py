import pytest

from stepline.errors import BusyError, InputError, NotFoundError
from stepline.model.entry import Dropped, Inbound, Opened, Owner
from stepline.model.ids import execution_name, turn_id
from stepline.model.wire.event import EventFrame
from tests.support.conversation import LANE, USER, Scene, answered, event_types, of
from tests.support.faulty_log import BusyLog, ContendedLog, LosingLog, StaleLog


def scene_open(**policy: int) -> Scene:
    scene = Scene(**policy)
    scene.send(id="first")
    return scene


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
def test_what_an_event_becomes_depends_on_the_lane_and_on_its_kind(
    *,
    is_open: bool,
    kind: str,
    reactive: bool | None,
    text: str,
    event: str,
    entries: list[str],
    status: str,
) -> None:
    scene = scene_open() if is_open else Scene()
    admitted = scene.send(text, kind=kind, reactive=reactive)
    assert admitted.event == event
    assert [name for name in scene.kinds()[-1] if name != "Owner"] == entries
    assert scene.state.status == status


def test_a_kind_that_is_always_one_or_the_other_is_not_what_its_sender_says() -> None:
    with pytest.raises(InputError) as refused:
        Scene().send(kind="followup", reactive=False)
    assert refused.value.reason == "bad_event"


def test_the_first_message_founds_the_conversation_and_later_ones_do_not() -> None:
    scene = scene_open()
    scene.send(id="second")
    assert scene.entries(Owner) == [Owner(user=USER)]
    assert scene.state.owner == USER


def test_opening_names_the_turn_the_epoch_and_the_execution_by_the_batch() -> None:
    scene = Scene()
    n = scene.send(kind="note", id="m0").batch.n + 1
    scene.send("hello")
    state, (opening,) = scene.state, scene.entries(Opened)
    assert (state.epoch, state.claim, state.rendered, state.opened) == (n, n, n, n)
    assert opening.prompts == (n,)
    assert opening.turn == state.turn == turn_id(scene.clock.now(), f"{LANE.key()}/m1")
    name, step = scene.take()
    assert name == execution_name(LANE, n)
    assert (step.turn, step.epoch, step.iteration, step.route) == (state.turn, n, 0, "decide")


def test_a_followup_starts_no_second_execution() -> None:
    scene = scene_open()
    scene.send(id="second")
    assert len(scene.machine.queue) == 1


def test_a_resent_message_is_answered_with_its_first_place_and_admitted_once() -> None:
    scene = scene_open()
    scene.send(id="second")
    again = scene.send(id="first")
    assert (again.batch.n, again.event, again.duplicate) == (1, "prompt", True)
    assert scene.tail.n == 2


def test_a_resent_message_starts_the_execution_its_first_sending_could_not() -> None:
    scene = scene_open()
    started = scene.machine.queue[0]
    scene.machine.queue.clear()
    scene.machine._status.clear()
    scene.send(id="first")
    assert scene.machine.queue == [started]


def test_a_message_whose_answer_was_lost_is_no_duplicate_of_itself() -> None:
    scene = Scene(log=LosingLog(True))
    admitted = scene.send()
    assert (admitted.duplicate, scene.tail.n, len(scene.machine.queue)) == (False, 1, 1)


def test_a_message_that_never_arrived_is_admitted_on_the_next_try() -> None:
    scene = Scene(log=LosingLog(False))
    assert (scene.send().duplicate, scene.tail.n) == (False, 1)


def test_two_first_messages_at_once_share_one_conversation_and_one_turn() -> None:
    log = BusyLog()
    scene = Scene(log=log)
    log.rivals = [lambda: scene.send(id="faster")]
    scene.send(id="slower")
    assert [entry.message_id for entry in scene.entries(Inbound)] == ["faster", "slower"]
    assert [entry.event for entry in scene.entries(Inbound)] == ["prompt", "followup"]
    assert (len(scene.entries(Owner)), len(scene.entries(Opened)), len(scene.machine.queue)) == (1, 1, 1)


def test_of_two_first_messages_at_once_the_stranger_is_turned_away() -> None:
    log = BusyLog()
    scene = Scene(log=log)
    log.rivals = [lambda: scene.send(id="hers", user=USER)]
    with pytest.raises(NotFoundError):
        scene.send(id="his", user="bob")
    assert scene.tail.n == 1


def test_the_same_message_twice_at_once_is_admitted_once() -> None:
    log = BusyLog()
    scene = Scene(log=log)
    log.rivals = [lambda: scene.send(id="same")]
    assert scene.send(id="same").duplicate
    assert scene.tail.n == 1


@pytest.mark.parametrize("message_id", ["new", "first"])
def test_a_strangers_message_is_refused_as_if_there_were_no_conversation(message_id: str) -> None:
    scene = scene_open()
    with pytest.raises(NotFoundError) as caught:
        scene.send(id=message_id, user="bob")
    assert str(caught.value) == "no such conversation"
    assert scene.tail.n == 1


def test_a_stranger_who_reads_late_is_refused_all_the_same() -> None:
    scene = Scene(log=StaleLog(lag=9))
    scene.send(id="first")
    for message_id in ("new", "first"):
        with pytest.raises(NotFoundError):
            scene.send(id=message_id, user="bob")


def test_the_owner_who_reads_late_is_admitted() -> None:
    scene = Scene(log=StaleLog(lag=9))
    for message_id in ("a", "b", "c"):
        scene.send(id=message_id)
    assert [entry.message_id for entry in scene.entries(Inbound)] == ["a", "b", "c"]


def test_each_followup_brings_a_round_up_to_as_many_as_a_turn_has() -> None:
    scene = scene_open(max_iterations=2)
    seen = []
    for i in range(4):
        scene.send(id=f"f{i}")
        seen.append(scene.state.credits)
    scene.send(id="steer", kind="steer")
    scene.send(id="event", kind="note")
    assert seen == [1, 2, 2, 2]
    assert scene.state.credits == 2


def test_an_open_lane_is_listed_and_an_idle_one_is_not() -> None:
    scene = Scene(answered("done"))
    scene.send(kind="note", id="m0")
    assert scene.log.open_lanes(before="9999") == []
    scene.send()
    (mark,) = scene.log.open_lanes(before="9999")
    assert (mark.lane, mark.n) == (LANE, 2)


def test_the_sender_hears_of_its_own_message_because_it_listens_before_the_events_go_out() -> None:
    scene = Scene()
    inbox = scene.connect("k1")
    scene.send(connection="k1")
    assert event_types(inbox) == [
        "conv.status",
        "chat.conversation.accepted",
        "chat.conversation.title",
        "conv.status",
        "chat.start",
    ]
    assert of(EventFrame, inbox)[0].prev == 0


def test_a_refused_sender_does_not_listen() -> None:
    scene = scene_open()
    inbox = scene.connect("k2", user="bob")
    with pytest.raises(NotFoundError):
        scene.send(id="new", user="bob", connection="k2")
    scene.send(id="second")
    assert inbox == []


def test_a_dropped_steer_names_itself_and_why() -> None:
    scene = Scene()
    scene.send(id="s", kind="steer")
    assert scene.entries(Dropped) == [Dropped(n=1, reason="nothing_to_steer", message_id="s", event="steer")]


def test_a_lane_that_is_always_contended_asks_the_client_to_come_again() -> None:
    log = ContendedLog()
    scene = Scene(log=log)
    log.contended = True
    with pytest.raises(BusyError):
        scene.send()


def test_a_dead_connection_does_not_keep_a_message_out() -> None:
    scene = Scene()
    scene.listen("gone")
    scene.app.ports.publisher.close("gone")  # type: ignore[attr-defined]  # the memory twin's own
    scene.send()
    assert scene.tail.n == 1
    assert scene.ports.subscriptions.listeners(LANE) == []
