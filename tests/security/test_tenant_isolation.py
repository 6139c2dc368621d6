import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.aws import table
from stepline.adapters.aws.table import (
    account_pk,
    charge_pk,
    conversation_pk,
    cost_pk,
    delta_pk,
    feedback_pk,
    feedback_sk,
    fork_sk,
    heard_sk,
    limits_pk,
    log_pk,
    message_sk,
    noted_pk,
    person_pk,
    rate_pk,
    rated_pk,
    replay_pk,
    slot_pk,
    socket_key,
    split_heard,
    ticket_pk,
    ticket_sk,
    upload_pk,
    user_pk,
)
from stepline.errors import InputError
from stepline.ingress.message import receive
from stepline.log.spill import body_key
from stepline.model.batch import Batch, State
from stepline.model.file.upload_slot import UPLOAD_ID, quarantine_key, read_quarantine_key
from stepline.model.ids import SEGMENT, Lane, execution_name, make_lane
from stepline.model.tenancy.limits import Scope
from tests.support.conversation import LANE, Conversation, frames
from tests.support.generation import answered

segments = st.from_regex(SEGMENT, fullmatch=True)
lanes = st.builds(Lane, tenant=segments, project=segments, conversation=segments)
turns = st.from_regex(r"turn_[A-Za-z0-9_-]{1,20}", fullmatch=True)
uploads = st.from_regex(UPLOAD_ID, fullmatch=True)


# --- keys


@given(lanes, st.integers(1, 10**9))
def test_every_table_key_of_a_lane_begins_with_its_tenant_and_project(lane: Lane, claim: int) -> None:
    for pk in (
        log_pk(lane),
        conversation_pk(lane),
        delta_pk(lane, claim),
        noted_pk(lane),
        upload_pk(lane),
        replay_pk(lane),
        cost_pk(lane),
        charge_pk(lane),
    ):
        kind, tenant, project, *rest = pk.split("#")
        assert kind in ("LOG", "CONV", "DELTA", "UPLOAD", "REPLAY", "COST", "CHARGE")
        assert (tenant, project, rest[0]) == (lane.tenant, lane.project, lane.conversation)


def test_no_way_to_build_a_key_is_left_out_of_these_tests() -> None:
    builders = {name for name in vars(table) if re.fullmatch(r"\w+_(pk|sk|key)", name)}
    assert builders == {
        *("log_pk", "conversation_pk", "delta_pk", "noted_pk", "upload_pk", "user_pk", "person_pk"),
        *("replay_pk", "replay_sk"),
        *("cost_pk", "charge_pk", "limits_pk", "account_pk", "slot_pk"),
        *("rated_pk", "feedback_pk", "feedback_sk"),
        *(
            "batch_sk",
            "message_sk",
            "fork_sk",
            "socket_key",
            "heard_sk",
            "ticket_pk",
            "ticket_sk",
            "rate_pk",
            "exec_pk",
        ),
    }


@given(segments, segments, st.text(min_size=1, max_size=20))
def test_a_users_key_begins_with_tenant_and_project_for_any_name(
    tenant: str, project: str, user: str
) -> None:
    assert user_pk(tenant, project, user).split("#", 3) == ["USER", tenant, project, user]
    assert rated_pk(tenant, project, user).split("#", 3) == ["RATED", tenant, project, user]


scopes = st.tuples(segments, segments | st.just(""), st.text(max_size=20)).map(
    lambda it: Scope(tenant=it[0], project=it[1], user=it[2] if it[1] else "")
)


@given(scopes, scopes)
def test_two_accounts_share_no_row_and_a_row_names_no_user(one: Scope, two: Scope) -> None:
    for key in (limits_pk, account_pk, slot_pk):
        assert (key(one) == key(two)) == (one == two)
        kind, *place = key(one).split("#")
        assert kind in ("LIMITS", "ACCOUNT", "SLOT")
        assert place[:2] == [one.tenant, *([one.project] if one.project else [])]
        assert all(re.fullmatch(r"[0-9a-f]{32}", text) for text in place[2:])


@given(segments, segments, st.from_regex(r"[0-9a-f]{32}", fullmatch=True))
def test_the_partition_key_of_a_person_names_tenant_project_and_user(
    tenant: str, project: str, whose: str
) -> None:
    assert person_pk(tenant, project, whose).split("#") == ["PERSON", tenant, project, whose]


@given(segments, segments)
def test_a_days_feedback_is_one_projects_and_a_row_of_it_one_turns(tenant: str, project: str) -> None:
    day = feedback_pk(tenant, project, "2026-11-21")
    assert day.split("#") == ["FEEDBACK", tenant, project, "2026-11-21"]
    assert feedback_sk("turn_1", "user") == "FEEDBACK#turn_1#user"


users = st.tuples(segments, segments, st.text(st.characters(max_codepoint=127), min_size=1, max_size=20))


@given(users, users)
def test_two_users_share_no_count_and_a_row_names_no_user(
    one: tuple[str, str, str], two: tuple[str, str, str]
) -> None:
    assert (rate_pk(*one) == rate_pk(*two)) == (one == two)
    assert re.fullmatch(r"RATE#[0-9a-f]{32}", rate_pk(*one))


@given(st.text(max_size=60), st.text(max_size=60))
def test_two_tickets_share_no_row_and_a_row_gives_none_away(one: str, two: str) -> None:
    assert (ticket_pk(one) == ticket_pk(two)) == (ticket_sk(one) == ticket_sk(two)) == (one == two)
    assert (ticket_sk(one) == ticket_sk(two)) == (one == two)
    assert re.fullmatch(r"TICKET#[0-9a-f]{64}", ticket_pk(one))
    assert re.fullmatch(r"[0-9a-f]{64}", ticket_sk(one))


@given(lanes, lanes)
def test_two_lanes_share_no_key(one: Lane, two: Lane) -> None:
    keys: list[Callable[[Lane], str]] = [
        Lane.key,
        Lane.prefix,
        log_pk,
        conversation_pk,
        upload_pk,
        replay_pk,
        lambda lane: delta_pk(lane, 1),
        noted_pk,
        lambda lane: execution_name(lane, 1),
        lambda lane: quarantine_key(lane, f"up_{'0' * 32}"),
    ]
    for key in keys:
        assert (key(one) == key(two)) == (one == two)


@given(lanes, turns, st.sampled_from(["admit", "t/1/0/decide", "close"]))
def test_every_body_lies_below_its_tenant_and_project(lane: Lane, turn: str, step: str) -> None:
    batch = Batch(n=1, by="b", at="", step=step, entries=(), state=State(turn=turn))
    kind, tenant, project, conversation, *_ = body_key(lane, batch, "0" * 64).split("/")
    assert kind in ("att", "out")
    assert (tenant, project, conversation) == (lane.tenant, lane.project, lane.conversation)


@given(lanes, uploads)
def test_the_key_that_a_file_is_posted_to_names_its_conversation_and_its_slot(
    lane: Lane, upload: str
) -> None:
    key = quarantine_key(lane, upload)
    assert key.split("/") == ["quarantine", lane.tenant, lane.project, lane.conversation, upload]
    assert read_quarantine_key(key) == (lane, upload)


@given(lanes, st.text(max_size=40))
def test_no_other_name_of_a_slot_is_part_of_a_key(lane: Lane, text: str) -> None:
    if UPLOAD_ID.fullmatch(text):
        return
    with pytest.raises(InputError):
        quarantine_key(lane, text)
    assert read_quarantine_key(f"quarantine/{lane.prefix()}/{text}") is None


@given(st.text(max_size=70))
def test_text_that_could_break_out_of_a_key_is_no_part_of_a_lane(text: str) -> None:
    if SEGMENT.fullmatch(text):
        assert not set(text) & set("#/\\. \n\0")
        return
    for parts in ((text, "p", "c"), ("t", text, "c"), ("t", "p", text)):
        with pytest.raises(InputError):
            make_lane(*parts)


def test_rows_of_messages_and_connections_carry_names_that_cannot_pose_as_others() -> None:
    assert message_sk("m1") == "MSG#m1"
    assert fork_sk("c1") == "FORK#c1"
    assert socket_key("k1") == "SOCKET#k1"
    assert heard_sk("k1", "c1") == "SOCKET#k1#c1"
    assert split_heard(heard_sk("k1", "c1")) == ("k1", "c1")
    assert split_heard(heard_sk("k1")) == ("k1", "")


# --- conversations of others

SEND = {"action": "send", "message_id": "m9", "text": "let me in"}


def answer(conversation: Conversation, connection: str, message: dict[str, Any], name: str) -> list[Any]:
    """Send one message; return the frames it is answered with."""
    inbox: list[bytes] = conversation.app.ports.publisher.inboxes[connection]  # type: ignore[attr-defined]  # the memory twin's own
    inbox.clear()
    receive(conversation.ports, connection, json.dumps({**message, "conversation": name}))
    return frames(inbox)


@pytest.fixture
def conversation() -> Conversation:
    """A conversation of ada's, and bob connected from the same project."""
    conversation = Conversation(answered("private"))
    conversation.send("private question")
    conversation.run()
    conversation.connect("bob", user="bob")
    return conversation


def test_a_foreign_message_id_reveals_nothing_either(conversation: Conversation) -> None:
    known = answer(conversation, "bob", {**SEND, "message_id": "m1"}, LANE.conversation)
    fresh = answer(conversation, "bob", {**SEND, "message_id": "m2"}, LANE.conversation)
    assert [(f.code, f.message) for f in known] == [(f.code, f.message) for f in fresh]


def test_the_same_conversation_name_in_another_tenant_is_another_conversation(
    conversation: Conversation,
) -> None:
    theirs = Lane(tenant="other", project=LANE.project, conversation=LANE.conversation)
    conversation.send("theirs", id="m1", user="bob", lane=theirs)
    assert [batch.state.owner for batch in conversation.batches(theirs)] == ["bob"]
    assert {batch.state.owner for batch in conversation.batches()} == {"ada"}
