"""Limits at ingress: a refused message never enters the log, and a message that ends work always does."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.delivery.settle_account import charge_upload
from stepline.errors import LimitError
from stepline.ingress.allow import check_rate
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.ingress.delete import apply_deletion
from stepline.model.entry import ApprovalRequested
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import ROUND_OUTPUT_TOKENS
from stepline.model.tenancy.limits import Limits, Scope, scopes_of
from stepline.ports.channel import Principal
from stepline.tools.context import ToolOutput
from tests.support.conversation import FAR, LANE, USER, Conversation, tool
from tests.support.generation import answered, called

SCOPES = scopes_of(LANE.tenant, LANE.project, USER)
PRINCIPAL = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR)


def set_limits(conversation: Conversation, scope: Scope = SCOPES[0], **limits: Any) -> None:
    version = conversation.ports.accounts.limits([scope])[0].version
    conversation.ports.accounts.set_limits(scope, Limits(**limits), version=version, by="boss", at="")


def lane(name: str) -> Lane:
    return Lane(tenant=LANE.tenant, project=LANE.project, conversation=name)


def refused(conversation: Conversation, **fields: Any) -> LimitError:
    """Send a message; return its error, and assert that it left no trace."""
    before = conversation.batches(fields.get("lane", LANE))
    with pytest.raises(LimitError) as caught:
        conversation.send(**fields)
    assert conversation.batches(fields.get("lane", LANE)) == before
    return caught.value


def running(*script: str, **limits: Any) -> Conversation:
    """A conversation whose turn has begun."""
    conversation = Conversation(*script)
    set_limits(conversation, **limits)
    conversation.send()
    return conversation


# --- budgets


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"tokens_day": 0}, "limit_tokens"),
        ({"tokens_month": 0}, "limit_tokens"),
        ({"usd_day": 0.0}, "limit_usd"),
        ({"usd_month": 0.0}, "limit_usd"),
        ({"storage_bytes": 0}, "limit_storage"),
        ({"turns_at_once": 0}, "limit_turns"),
        ({"stopped": "maintenance"}, "stopped"),
    ],
)
def test_a_message_beyond_a_limit_of_any_account_does_not_enter(
    limits: dict[str, Any], code: str, place: int
) -> None:
    conversation = Conversation()
    set_limits(conversation, SCOPES[place], **limits)
    assert refused(conversation).reason == code
    assert conversation.machine.queue == []


def test_a_refusal_says_when_the_limit_ends() -> None:
    conversation = Conversation()
    set_limits(conversation, tokens_day=0)
    daily = refused(conversation).context["retry_after_s"]
    set_limits(conversation, tokens_month=0)
    monthly = refused(conversation).context["retry_after_s"]
    set_limits(conversation, stopped="maintenance")
    assert 0 < daily <= 86_400 < monthly
    error = refused(conversation)
    assert error.context["retry_after_s"] == 0
    assert "maintenance" in str(error)


def test_a_message_does_not_join_a_turn_beyond_a_budget_but_a_steer_and_a_stop_do() -> None:
    conversation = running(answered("Hello."), tokens_day=10_000_000)
    set_limits(conversation, tokens_day=0, stopped="maintenance", turns_at_once=0, storage_bytes=0)
    assert refused(conversation, id="m2").reason == "stopped"
    assert conversation.send("be brief", id="s1", kind="steer").fate == "joined"
    assert conversation.send("", id="s2", kind="stop").fate == "joined"


def test_a_message_that_is_sent_again_is_answered_with_its_batch_though_the_budget_is_used_up() -> None:
    conversation = running(tokens_day=10_000_000)
    set_limits(conversation, tokens_day=0)
    again = conversation.send()
    assert (again.duplicate, again.batch.n) == (True, 1)


def test_an_event_that_opens_nothing_is_kept_without_a_budget() -> None:
    conversation = Conversation()
    set_limits(conversation, tokens_day=0)
    kept = conversation.send("seen", id="e1", kind="page.seen", reactive=False)
    assert kept.fate == "kept"


def test_another_project_of_the_tenant_has_separate_limits() -> None:
    conversation = Conversation()
    set_limits(conversation, SCOPES[1], stopped="maintenance")
    other = Lane(tenant=LANE.tenant, project="sales", conversation="c-1")
    assert conversation.send(lane=other).fate == "opened"


# --- storage


def attached(conversation: Conversation, size_bytes: int, id: str = "m1", **fields: Any) -> Any:  # noqa: A002 - reads best
    body = b"x" * size_bytes
    file = Attachment(filename="a.txt", mime="text/plain", size_bytes=size_bytes, sha256="a" * 64)
    conversation.ports.artifacts.put(attachment_key(LANE, file.sha256), body, mime=file.mime)
    return conversation.send(id=id, attachments=(file,), **fields)


def test_the_stored_bytes_of_a_conversation_count_when_its_turn_ends() -> None:
    conversation = Conversation(answered("Thanks."))
    attached(conversation, 300)
    assert conversation.state.stored_bytes == 300
    conversation.run()
    used = conversation.ports.accounts.used(SCOPES, conversation.clock.now())
    assert [one.storage_bytes for one in used] == [300, 300, 300]


def test_files_beyond_the_storage_are_refused_even_if_no_turn_opens() -> None:
    conversation = Conversation()
    set_limits(conversation, storage_bytes=299)
    for fields in ({}, {"kind": "page.seen", "reactive": False}):
        with pytest.raises(LimitError) as caught:
            attached(conversation, 300, **fields)
        assert caught.value.reason == "limit_storage"
    assert attached(conversation, 299).fate == "opened"


# --- turns at once


def test_the_limit_of_concurrent_turns_covers_all_conversations() -> None:
    conversation = Conversation(*[answered("Hello.")] * 3)
    set_limits(conversation, turns_at_once=2)
    conversation.send(lane=lane("c-1"))
    conversation.send(lane=lane("c-2"))
    error = refused(conversation, lane=lane("c-3"))
    assert (error.reason, error.context["retry_after_s"]) == ("limit_turns", 15)
    conversation.run()
    assert conversation.log.taken_slots(SCOPES[0]) == set()
    assert conversation.send(lane=lane("c-3")).fate == "opened"


def test_a_message_joins_a_running_turn_despite_the_limit_of_turns() -> None:
    conversation = running(turns_at_once=1)
    assert conversation.send(id="m2").fate == "joined"
    assert conversation.log.taken_slots(SCOPES[0]) == {0}


def test_a_turn_that_follows_another_at_once_keeps_its_slot() -> None:
    conversation = Conversation(answered("One."), answered("Two."), max_iterations=1, event_credit=0)
    set_limits(conversation, turns_at_once=1)
    conversation.send()
    conversation.decide()
    conversation.send("and?", id="m2")
    conversation.close()
    assert (conversation.state.status, conversation.log.taken_slots(SCOPES[0])) == ("open", {0})
    conversation.take()
    conversation.run()
    assert (conversation.state.status, conversation.log.taken_slots(SCOPES[0])) == ("idle", set())


def test_a_turn_that_waits_for_a_person_has_no_slot_and_its_answer_takes_one_beyond_the_limit() -> None:
    conversation = Conversation(called("bank.pay"), answered("Paid."))
    conversation.use(tool("bank.pay", "once", lambda _: ToolOutput(blocks=()), approval="always"))
    set_limits(conversation, turns_at_once=1)
    conversation.send()
    conversation.decide()
    conversation.act()
    conversation.take()
    assert conversation.log.taken_slots(SCOPES[0]) == set()
    conversation.send(lane=lane("c-2"))
    (asked,) = conversation.entries(ApprovalRequested)
    answer_request(
        conversation.ports,
        LANE,
        ApprovalAnswer(message_id="a1", user=USER, call_id=asked.action.call_id, verdict="approved"),
    )
    assert len(conversation.log.taken_slots(SCOPES[0])) == 2
    assert refused(conversation, lane=lane("c-3")).reason == "limit_turns"


def test_a_mark_that_a_lost_close_left_gives_its_slot_to_the_next_turn() -> None:
    conversation = running(answered("Hello."), answered("Again."), turns_at_once=1)
    clear, conversation.log.clear_open = conversation.log.clear_open, lambda *_: None
    conversation.run()
    assert conversation.log.taken_slots(SCOPES[0]) == {0}
    conversation.log.clear_open = clear
    assert conversation.send(id="m2").fate == "opened"
    assert conversation.log.taken_slots(SCOPES[0]) == {0}
    conversation.run()
    assert conversation.log.taken_slots(SCOPES[0]) == set()


# --- turns at once against a budget

A_ROUND = ROUND_OUTPUT_TOKENS


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"tokens_day": A_ROUND - 1}, "limit_tokens"),
        ({"tokens_month": A_ROUND - 1}, "limit_tokens"),
        ({"usd_day": 0.49}, "limit_usd"),
        ({"usd_month": 0.49}, "limit_usd"),
    ],
)
def test_a_turn_without_room_for_its_first_round_does_not_open(limits, code) -> None:
    conversation = Conversation(models={"*": "claude-opus-5"})
    set_limits(conversation, **limits)
    assert refused(conversation).reason == code


def test_without_a_price_of_the_model_dollars_are_left_to_the_round() -> None:
    conversation = Conversation(models={"*": "a model without a price"})
    set_limits(conversation, usd_day=0.01)
    assert conversation.send().fate == "opened"


@pytest.mark.parametrize("place", range(3))
def test_turns_that_have_not_held_anything_yet_leave_room_for_as_many_fewer(place: int) -> None:
    conversation = Conversation(*[answered("Hello.")] * 2)
    set_limits(conversation, SCOPES[place], tokens_day=2 * A_ROUND + 10_000)
    for name in ("c-1", "c-2"):
        conversation.send(lane=lane(name))
    error = refused(conversation, lane=lane("c-3"))
    assert (error.reason, error.context["retry_after_s"]) == ("limit_tokens", 60)
    assert len(conversation.log.taken_slots(SCOPES[place])) == 2


def test_a_message_joins_a_turn_that_holds_all_that_was_left() -> None:
    conversation = Conversation()
    set_limits(conversation, tokens_day=A_ROUND)
    conversation.send()
    assert conversation.send(id="m2").fate == "joined"


def test_a_turns_share_of_a_budget_is_free_when_it_ends() -> None:
    conversation = Conversation(answered("Hello."), answered("Again."))
    set_limits(conversation, tokens_day=2 * A_ROUND)
    conversation.send()
    conversation.run()
    assert conversation.log.taken_slots(SCOPES[0]) == set()
    assert conversation.send(id="m2").fate == "opened"


def test_a_budget_with_room_for_many_turns_counts_none() -> None:
    conversation = Conversation()
    set_limits(conversation, tokens_day=100 * A_ROUND)
    conversation.send()
    assert conversation.log.taken_slots(SCOPES[0]) == set()


def test_the_narrower_of_two_bounds_refuses() -> None:
    conversation = Conversation()
    set_limits(conversation, turns_at_once=1, tokens_day=5 * A_ROUND)
    conversation.send(lane=lane("c-1"))
    assert refused(conversation, lane=lane("c-2")).reason == "limit_turns"


# --- messages a minute


def test_each_account_has_a_separate_rate() -> None:
    conversation = Conversation()
    set_limits(conversation, SCOPES[1], messages_per_minute=2)
    other = Principal(tenant=LANE.tenant, project=LANE.project, user="ben", expires_at=FAR)
    check_rate(conversation.ports, PRINCIPAL)
    check_rate(conversation.ports, other)
    with pytest.raises(LimitError) as caught:
        check_rate(conversation.ports, PRINCIPAL)
    assert caught.value.reason == "rate_limited"
    assert "together" in str(caught.value)


def test_a_steer_is_refused_only_far_beyond_the_rate_of_messages() -> None:
    conversation = Conversation()
    set_limits(conversation, messages_per_minute=1)
    for _ in range(10):
        check_rate(conversation.ports, PRINCIPAL, steers=True)
    with pytest.raises(LimitError):
        check_rate(conversation.ports, PRINCIPAL)
    with pytest.raises(LimitError):
        check_rate(conversation.ports, PRINCIPAL, steers=True)


# --- uploads


def test_an_uploaded_file_is_counted_once_and_not_when_attached() -> None:
    conversation = Conversation(answered("Thanks."))
    charge_upload(conversation.ports, LANE, USER, 300)
    set_limits(conversation, storage_bytes=301)
    assert attached(conversation, 300, uploaded_bytes=300).fate == "opened"
    assert conversation.state.stored_bytes == 0
    conversation.run()
    used = conversation.ports.accounts.used(SCOPES, conversation.clock.now())
    assert [one.storage_bytes for one in used] == [300, 300, 300]


def test_uploads_of_a_conversation_are_deleted_with_it() -> None:
    conversation = Conversation(answered("Thanks."))
    conversation.send()
    conversation.run()
    charge_upload(conversation.ports, LANE, USER, 300)
    apply_deletion(conversation.ports, LANE, USER)
    used = conversation.ports.accounts.used(SCOPES, conversation.clock.now())
    assert [one.storage_bytes for one in used] == [0, 0, 0]
