"""Budgets: a round's maximum usage is held before it asks the model, and a turn without room ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail, Say
from stepline.delivery.settle_account import settle_account
from stepline.errors import Fenced, ModelTimeout
from stepline.loop.close import follow_closing
from stepline.metrics import TURNS_CLOSED, TURNS_FAILED
from stepline.model.batch import EMPTY
from stepline.model.entry import Closed, Reopened, SteeredEntry
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import Account, Amount, Posting, plan_charge
from stepline.model.tenancy.limits import Limits, Scope, ScopeLimits, Used, limit_sentence, scopes_of
from stepline.model.tenancy.price import ModelPrice, Prices
from stepline.model.usage import Usage
from stepline.ports.tenancy.accounts import Posted
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called

SCOPES = scopes_of(LANE.tenant, LANE.project, USER)
OTHER = Lane(tenant=LANE.tenant, project=LANE.project, conversation="c-2")
ROOM = 10_000_000
PLAN = called("react.plan", {"steps": ["look"]})
SPENT = Usage(input_tokens=900, output_tokens=100)


def says(text: str) -> Say:
    return Say(text=text, usage=SPENT)


def limited(*script: Say | str, **limits: float) -> Conversation:
    conversation = Conversation(*script)
    set_limits(conversation, Limits(**limits))
    return conversation


def set_limits(conversation: Conversation, limits: Limits, scope: Scope = SCOPES[0]) -> None:
    version = conversation.ports.accounts.limits([scope])[0].version
    conversation.ports.accounts.set_limits(scope, limits, version=version, by="boss", at="")


def used(conversation: Conversation, place: int = 0) -> Used:
    return conversation.ports.accounts.used(SCOPES, conversation.clock.now())[place]


def closed(conversation: Conversation) -> Closed:
    return conversation.entries(Closed)[-1]


def hold(conversation: Conversation, lane: Lane, tokens: int) -> None:
    """Hold tokens for a conversation, like a running round."""
    accounts, now = conversation.ports.accounts, conversation.clock.now()
    plan = plan_charge(accounts.account(lane), EMPTY, SCOPES, at=now, hold=Amount(tokens=tokens))
    assert plan is not None
    assert accounts.post(lane, plan.account, plan.postings) == "posted"


def announced(conversation: Conversation, request: int = -1) -> str:
    return conversation.model.requests[request].content[-1].text


# --- without limits


def test_without_limits_a_round_holds_nothing_and_shows_no_budget() -> None:
    conversation = Conversation(says(answered("Hello.")))
    conversation.send()
    conversation.decide()
    assert used(conversation).held_tokens == 0
    assert conversation.ports.accounts.account(LANE).version == 0
    assert "budget left" not in announced(conversation)


def test_without_limits_a_turn_is_charged_to_its_user_project_and_tenant_when_it_ends() -> None:
    conversation = Conversation(says(PLAN), says(answered("Done.")))
    conversation.send()
    conversation.run()
    assert [used(conversation, place).tokens_month for place in range(3)] == [2000, 2000, 2000]


def test_a_turn_whose_end_is_followed_again_is_charged_once() -> None:
    conversation = Conversation(says(answered("Hello.")))
    conversation.send()
    conversation.run()
    for _ in range(2):
        follow_closing(conversation.ports, LANE, conversation.tail)
    assert used(conversation).tokens_day == 1000


def test_a_batch_older_than_the_charged_one_is_ignored() -> None:
    conversation = Conversation(says(answered("Hello.")), says(answered("Again.")))
    conversation.send()
    conversation.run()
    older = conversation.tail
    conversation.send(id="m2")
    conversation.run()
    settle_account(conversation.ports, LANE, older)
    assert used(conversation).tokens_day == 2000


# --- with a budget


def test_a_round_holds_its_prompt_and_all_of_its_output_until_the_turn_ends() -> None:
    conversation = limited(says(PLAN), says(answered("Done.")), tokens_day=ROOM)
    conversation.send()
    conversation.decide()
    assert used(conversation).held_tokens > conversation.agent.max_tokens
    assert used(conversation).tokens_day == 0
    conversation.act()
    conversation.decide()
    assert used(conversation).tokens_day == 1000
    assert used(conversation).held_tokens > conversation.agent.max_tokens
    conversation.close()
    assert (used(conversation).tokens_day, used(conversation).held_tokens) == (2000, 0)


def test_a_round_is_held_in_dollars_if_the_price_of_its_model_is_known() -> None:
    conversation = Conversation(says(answered("Hello.")), models={"*": "claude-opus-5"})
    set_limits(conversation, Limits(usd_day=100.0), SCOPES[2])
    conversation.send()
    conversation.decide()
    assert used(conversation, 2).held_usd > 20_000 * 25 / 1e6


@pytest.mark.parametrize("limits", [Limits(usd_day=100.0), Limits(usd_month=1.0)], ids=["a day", "a month"])
def test_a_model_without_a_price_is_not_called_if_dollars_are_limited(limits: Limits) -> None:
    conversation = Conversation(models={"*": "own:qwen3"})
    set_limits(conversation, limits, SCOPES[1])
    conversation.send()
    conversation.run()
    end = closed(conversation)
    assert (end.outcome, end.code) == ("error", "limit_usd")
    assert end.message == limit_sentence("limit_usd", "project unpriced")
    assert "price of the model is not known" in end.message
    assert used(conversation, 1).held_usd == 0


def test_a_model_with_a_price_of_zero_and_one_under_a_limit_of_tokens_are_called() -> None:
    free = Prices(models=(ModelPrice(model="own:", plain=0.0, read=0.0, output=0.0),))
    conversation = Conversation(says(answered("Hello.")), models={"*": "own:qwen3"}, prices=free)
    set_limits(conversation, Limits(usd_day=0.01), SCOPES[0])
    conversation.send()
    conversation.run()
    assert closed(conversation).outcome == "completed"
    unpriced = Conversation(says(answered("Hello.")), models={"*": "own:qwen3"})
    set_limits(unpriced, Limits(tokens_day=ROOM), SCOPES[0])
    unpriced.send()
    unpriced.run()
    assert closed(unpriced).outcome == "completed"


def test_the_model_sees_the_rest_of_the_smallest_budget() -> None:
    conversation = limited(says(PLAN), says(answered("Done.")), tokens_day=ROOM)
    set_limits(conversation, Limits(tokens_month=ROOM - 1, usd_day=3.0), SCOPES[1])
    conversation.send()
    conversation.decide()
    assert f"budget left: {ROOM - 1} tokens this month, 3.00 US dollars today" in announced(conversation)
    conversation.act()
    conversation.decide()
    assert f"budget left: {ROOM - 1001} tokens" in announced(conversation)


def test_a_round_that_is_tried_again_holds_once() -> None:
    conversation = limited(*[Fail(error=ModelTimeout("…"))] * 6, tokens_day=ROOM)
    conversation.send()
    step = conversation.now()
    with pytest.raises(ModelTimeout):
        conversation.decide(step)
    once = used(conversation).held_tokens
    with pytest.raises(ModelTimeout):
        conversation.decide(replace(step, attempt=1))
    assert used(conversation).held_tokens == once


# --- without room


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(tokens_day=20_500), "limit_tokens"),
        (Limits(tokens_month=20_500), "limit_tokens"),
        (Limits(usd_day=0.505), "limit_usd"),
        (Limits(usd_month=0.505), "limit_usd"),
    ],
)
def test_a_round_without_room_closes_the_turn_before_the_model_is_asked(
    limits: Limits, code: str, place: int
) -> None:
    conversation = Conversation(models={"*": "claude-opus-5"})
    set_limits(conversation, limits, SCOPES[place])
    conversation.send()
    conversation.run()
    assert conversation.model.requests == []
    ending = closed(conversation)
    assert (ending.outcome, ending.code) == ("error", code)
    assert ending.message.startswith(("Your", "This project's", "This organization's")[place])
    assert used(conversation, place).held_tokens == 0


def test_the_end_of_a_turn_without_room_says_when_the_budget_begins_again() -> None:
    conversation = limited(tokens_day=20_500)
    conversation.send()
    conversation.run()
    now = conversation.clock.now().astimezone(UTC)
    left_s = 86_400 - (now - now.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    assert closed(conversation).retry_after_s == pytest.approx(left_s, abs=2)
    assert "daily budget of tokens is used up. It begins again at 00:00 UTC." in closed(conversation).message


def test_a_limit_that_lasts_a_month_says_so() -> None:
    conversation = limited(tokens_day=20_500, tokens_month=20_500)
    conversation.send()
    conversation.run()
    assert "monthly budget" in closed(conversation).message
    assert (
        conversation.clock.now().month
        != datetime.fromtimestamp(
            conversation.clock.now().timestamp() + closed(conversation).retry_after_s + 1, UTC
        ).month
    )


def test_room_held_by_others_is_retried_in_a_minute() -> None:
    conversation = limited(tokens_day=100_000)
    hold(conversation, OTHER, 79_500)
    conversation.send()
    conversation.run()
    assert closed(conversation).retry_after_s == 60
    assert "held by turns that run now" in closed(conversation).message


def test_a_hold_without_room_is_retried_in_a_minute() -> None:
    conversation = limited(tokens_day=ROOM)
    accounts = conversation.ports.accounts
    post = accounts.post

    def crowded(lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
        """Refuse each hold, as if others held the room for a moment."""
        return "full" if any(one.held.tokens for one in postings) else post(lane, account, postings)

    accounts.post = crowded  # type: ignore[method-assign]
    conversation.send()
    conversation.run()
    assert (closed(conversation).code, closed(conversation).retry_after_s) == ("limit_tokens", 60)
    assert "held by turns that run now" in closed(conversation).message


def test_a_turn_ended_by_a_limit_is_not_counted_as_a_failure() -> None:
    conversation = limited(tokens_day=20_500)
    conversation.send()
    conversation.run()
    counts = conversation.ports.meter.counts  # type: ignore[attr-defined]  # the memory twin's own
    assert (counts[TURNS_CLOSED], counts[TURNS_FAILED]) == (1, 0)


def test_a_turn_continues_while_its_budget_has_room_for_a_round() -> None:
    conversation = limited(says(PLAN), says(PLAN), tokens_day=ROOM)
    conversation.send()
    conversation.decide()
    conversation.act()
    set_limits(conversation, Limits(tokens_day=20_500))
    conversation.run()
    assert len(conversation.model.requests) == 1
    assert closed(conversation).code == "limit_tokens"
    assert used(conversation).tokens_day == 1000


def test_a_turn_beyond_the_storage_closes() -> None:
    conversation = limited(says(PLAN), storage_bytes=100)
    conversation.send()
    conversation.decide()
    conversation.act()
    set_limits(conversation, Limits(storage_bytes=0))
    conversation.run()
    assert closed(conversation).code == "limit_storage"
    assert closed(conversation).retry_after_s == 0


# --- the kill switch


@pytest.mark.parametrize("place", range(3))
def test_a_stop_of_the_administrators_holds_at_the_next_round(place: int) -> None:
    conversation = Conversation(says(PLAN))
    conversation.send()
    conversation.decide()
    set_limits(conversation, Limits(stopped="maintenance"), SCOPES[place])
    conversation.act()
    conversation.run()
    assert len(conversation.model.requests) == 1
    assert (closed(conversation).code, closed(conversation).retry_after_s) == ("stopped", 0)
    assert "maintenance" not in closed(conversation).message


def test_a_steer_gives_no_final_round_where_work_is_stopped() -> None:
    conversation = Conversation()
    conversation.send()
    set_limits(conversation, Limits(stopped="maintenance"), SCOPES[2])
    conversation.send("be brief", id="s1", kind="steer")
    conversation.run()
    assert closed(conversation).code == "stopped"


# --- a steer and a stop without budget


def test_a_steered_turn_without_budget_has_one_final_round_and_answers() -> None:
    conversation = limited(says(PLAN), says(answered("Brief.")), tokens_day=ROOM)
    conversation.send()
    conversation.decide()
    conversation.act()
    set_limits(conversation, Limits(tokens_day=0))
    conversation.send("be brief", id="s1", kind="steer")
    conversation.run()
    assert (closed(conversation).reason, closed(conversation).answer) == ("steer", "Brief.")
    assert used(conversation).tokens_day == 2000


def test_the_final_round_without_budget_always_ends_the_turn() -> None:
    conversation = limited(says(PLAN), says(PLAN), tokens_day=ROOM)
    conversation.send()
    conversation.decide()
    set_limits(conversation, Limits(tokens_day=0))
    conversation.send("be brief", id="s1", kind="steer")
    conversation.run()
    assert len(conversation.model.requests) == 2
    assert closed(conversation).outcome == "completed"
    (steered,) = conversation.entries(SteeredEntry)
    assert steered.finalize == 2
    assert [entry.code for entry in conversation.entries(Reopened)] == ["limit_tokens"]


def test_a_stop_ends_a_turn_without_budget_without_asking() -> None:
    conversation = limited(says(PLAN), tokens_day=ROOM)
    conversation.send()
    conversation.decide()
    set_limits(conversation, Limits(tokens_day=0))
    conversation.send("", id="s1", kind="stop")
    conversation.run()
    assert (closed(conversation).reason, len(conversation.model.requests)) == ("stop", 1)


# --- races


def test_an_attempt_that_finds_a_later_batch_charged_is_fenced() -> None:
    conversation = limited(tokens_day=ROOM)
    conversation.send()
    tail = conversation.tail
    settle_account(conversation.ports, LANE, replace(tail, n=tail.n + 5))
    with pytest.raises(Fenced):
        conversation.decide()


def test_stage_defaults_apply_to_accounts_without_limits() -> None:
    conversation = Conversation(limits=ScopeLimits(user=Limits(tokens_day=20_500)))
    conversation.send()
    conversation.run()
    assert closed(conversation).code == "limit_tokens"
    set_limits(conversation, Limits(tokens_day=ROOM))
    conversation.model.add(says(answered("Hello.")))
    conversation.send(id="m2")
    conversation.run()
    assert closed(conversation).answer == "Hello."
