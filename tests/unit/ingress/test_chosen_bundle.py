"""The bundle of a conversation: its first message chooses it, and it never changes."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stepline.delivery.resume import resume
from stepline.errors import InputError
from stepline.events.filter import EventFilter, EventRule
from stepline.ingress.admit import Arrival, choose_bundle
from stepline.log.bindings import BundleRules
from stepline.loop.sweep import sweep_lane
from stepline.model.batch import State, decode_batch, encode_batch
from stepline.model.entry import Opened, Owner
from tests.support.conversation import FAR, LANE, USER, Conversation, event_types
from tests.support.faulty_log import BusyLog, StaleLog
from tests.support.generation import answered, called

ROUNDS = 3
TOLD = ["chat.start", "chat.complete"]


def staged(*script: Any, **fields: Any) -> Conversation:
    """Return a conversation on a stage with the bundle `docs`, whose turns are shorter and say less."""
    conversation = Conversation(*script, **fields)
    rules = BundleRules(
        policy=replace(conversation.ports.policy, max_iterations=ROUNDS),
        outward=EventFilter((EventRule(types=frozenset(TOLD)),)),
    )
    conversation.ports = replace(conversation.ports, bundles={"docs": rules})
    return conversation


def refused(conversation: Conversation, **fields: Any) -> str:
    before = conversation.tail.n
    with pytest.raises(InputError) as caught:
        conversation.send(**fields)
    assert conversation.tail.n == before
    return caught.value.reason


def test_the_first_message_chooses_the_bundle_of_all_batches_and_executions() -> None:
    conversation = staged(answered("Yes."), answered("Again."))
    conversation.send(bundle="docs")
    assert conversation.entries(Owner) == [Owner(user=USER, bundle="docs")]
    (_, step) = conversation.machine.queue[0]
    assert step.bundle == "docs"
    conversation.run()
    conversation.send(id="m2")
    conversation.run()
    assert {batch.state.bundle for batch in conversation.batches()} == {"docs"}


def test_a_later_message_may_name_only_the_same_bundle_or_none() -> None:
    conversation = staged(answered("Yes."))
    conversation.send(bundle="docs")
    conversation.send(id="m2")
    conversation.send(id="m3", bundle="docs", kind="steer")
    for number, name in enumerate(("default", "unheard-of")):
        assert refused(conversation, id=f"n{number}", bundle=name) == "another_bundle"


def test_a_conversation_without_a_named_bundle_has_the_default() -> None:
    conversation = staged()
    conversation.send()
    conversation.send(id="m2", bundle="default")
    assert conversation.state.bundle == ""
    assert conversation.entries(Owner) == [Owner(user=USER)]
    assert refused(conversation, id="m3", bundle="docs") == "another_bundle"


def test_an_unknown_bundle_is_refused_without_naming_others() -> None:
    conversation = staged()
    with pytest.raises(InputError) as caught:
        conversation.send(bundle="shop")
    assert caught.value.reason == "unknown_bundle"
    assert "docs" not in str(caught.value)
    assert conversation.batches() == []


def test_a_removed_bundle_opens_no_turn_and_ends_the_open_one() -> None:
    conversation = staged()
    conversation.send(bundle="docs")
    conversation.ports = replace(conversation.ports, bundles={})
    assert refused(conversation, id="m2") == "unknown_bundle"
    conversation.close(error={"Error": "InputError", "Cause": "{}"})
    assert conversation.state.status == "idle"


def test_one_of_two_concurrent_first_messages_chooses_the_bundle() -> None:
    for late, code in (("docs", "another_bundle"), ("", None)):
        log = BusyLog()
        conversation = staged(log=log)
        chooses = "" if late else "docs"
        log.rivals = [lambda c=conversation, b=chooses: c.send(id="faster", bundle=b)]
        if code:
            with pytest.raises(InputError) as caught:
                conversation.send(id="slower", bundle=late)
            assert caught.value.reason == code
        else:
            conversation.send(id="slower", bundle=late)
        assert conversation.state.bundle == chooses


def test_a_message_that_is_sent_again_by_a_process_that_reads_late_is_the_same_message() -> None:
    conversation = staged(log=StaleLog(lag=9))
    conversation.send(id="first", bundle="docs")
    assert conversation.send(id="first", bundle="docs").duplicate
    assert refused(conversation, id="second", bundle="default") == "another_bundle"


def test_its_limits_and_the_events_that_may_leave_are_those_of_its_bundle() -> None:
    conversation = staged(answered("Yes."))
    inbox = conversation.listen("k1")
    conversation.send(bundle="docs", connection="k1")
    conversation.run()
    assert [entry.rounds for entry in conversation.entries(Opened)] == [ROUNDS]
    assert event_types(inbox) == TOLD
    late = conversation.connect("k2")
    resume(conversation.ports, LANE, user=USER, connection="k2", until_s=FAR, after=0, have={}, claim=0)
    assert event_types(late) == TOLD


def test_the_turn_that_a_close_opens_has_the_limits_of_its_bundle() -> None:
    conversation = staged(*[called("react.read", {"paths": ["so:sources_pool"]})] * ROUNDS, answered("Yes."))
    conversation.send(bundle="docs")
    conversation.decide()
    conversation.send(id="m2")
    conversation.close(error={"Error": "Unknown", "Cause": "{}"})
    assert [entry.rounds for entry in conversation.entries(Opened)] == [ROUNDS, ROUNDS]


def test_an_execution_that_takes_over_has_the_same_bundle() -> None:
    conversation = staged()
    conversation.send(bundle="docs")
    name, _ = conversation.take()
    conversation.machine.end(name)
    assert sweep_lane(conversation.ports, LANE) == "taken_over"
    assert conversation.take()[1].bundle == "docs"


def test_an_older_log_without_a_bundle_has_the_default() -> None:
    conversation = staged()
    conversation.send()
    stored = msgspec.json.decode(encode_batch(conversation.tail))
    at = State.__struct_fields__.index("bundle")
    assert stored["state"][at] == ""
    del stored["state"][at:]
    assert "bundle" not in stored["entries"][0]
    read = decode_batch(msgspec.json.encode(stored))
    assert (
        choose_bundle(conversation.ports, Arrival(message_id="m2", user=USER, bundle="default"), read) == ""
    )
