"""Charges in any order, at any time, with and without holds: each token is charged once, and no hold exceeds a limit."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.memory.tenancy.accounts import MemoryAccounts
from stepline.model.batch import Batch, State
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import NOTHING, Account, Amount, Posting, plan_charge, plan_replay
from stepline.model.tenancy.limits import Limits, Scope, Used, ends, limit_sentence, overlaid, scopes_of

BEGAN = datetime(2026, 11, 29, 12, tzinfo=UTC)
SCOPES = scopes_of("t", "p", "u")
LIMIT = 2_000
LIMITS = [Limits(), Limits(tokens_month=LIMIT), Limits(tokens_day=LIMIT)]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["c-1", "c-2"]),
        st.integers(0, 3),  # batches since the charged one
        st.integers(0, 400),  # tokens of the round
        st.integers(0, 900),  # the held tokens, 0 for a settlement
        st.integers(0, 20),  # hours that pass
    ),
    max_size=40,
)


@given(STEPS)
def test_charges_in_any_order_count_every_token_once_and_leave_no_hold(steps) -> None:
    accounts, now = MemoryAccounts(), BEGAN
    logs: dict[str, list[Batch]] = {"c-1": [_batch(1, 0)], "c-2": [_batch(1, 0)]}
    for conversation, lag, tokens, held, hours in steps:
        now += timedelta(hours=hours)
        log = logs[conversation]
        log.append(_batch(len(log) + 1, log[-1].state.output_tokens + tokens))
        _charge(accounts, conversation, log[max(0, len(log) - 1 - lag)], now, held)
        for counted in accounts.used(SCOPES[2:], now):
            assert not held or counted.held_tokens <= LIMIT
    for conversation, log in logs.items():
        log.append(_batch(len(log) + 1, log[-1].state.output_tokens))
        _charge(accounts, conversation, log[-1], now, 0)
    total = sum(log[-1].state.output_tokens for log in logs.values())
    for scope in SCOPES:
        counted = accounts.counters.get(scope.key(), {})
        months = [amount for name, amount in counted.items() if re.fullmatch(r"\d{4}-\d{2} tokens", name)]
        assert sum(months) == total
        assert [amount for name, amount in counted.items() if "held" in name and amount] == []


def _batch(n: int, tokens: int) -> Batch:
    return Batch(n=n, by="b", at="", entries=(), state=State(owner="u", output_tokens=tokens))


def _charge(accounts: MemoryAccounts, conversation: str, batch: Batch, at: datetime, held: int) -> None:
    lane = Lane(tenant="t", project="p", conversation=conversation)
    limits = LIMITS if held else ()
    hold = Amount(tokens=held)
    plan = plan_charge(accounts.account(lane), batch, SCOPES, at=at, hold=hold, limits=limits)
    if plan is not None:
        accounts.post(lane, plan.account, plan.postings)


def test_a_batch_that_is_charged_already_has_no_plan() -> None:
    account = Account(n=4, charged=Amount(tokens=9), version=3)
    assert plan_charge(account, _batch(4, 9), SCOPES, at=BEGAN) is None
    assert plan_charge(account, _batch(3, 5), SCOPES, at=BEGAN) is None


def test_a_batch_without_spending_moves_only_the_row() -> None:
    plan = plan_charge(Account(n=4, charged=Amount(tokens=9), version=3), _batch(5, 9), SCOPES, at=BEGAN)
    assert plan is not None
    assert (plan.account.n, plan.account.version, plan.postings) == (5, 4, ())


def test_a_replay_is_charged_by_the_difference_on_the_day_of_its_first_charge() -> None:
    accounts, lane = MemoryAccounts(), Lane(tenant="t", project="p", conversation="c-1")
    late = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)
    for hours, replay, tokens in ((0, "2-a", 900), (1, "2-a", 40), (1, "2-a", 40), (1, "2-b", 7)):
        at = late + timedelta(hours=hours)
        plan = plan_replay(
            accounts.account(lane),
            replay,
            SCOPES,
            Amount(tokens=tokens),
            at=at,
            until_s=int(late.timestamp()) + 7_200,
        )
        assert plan is None or accounts.post(lane, plan.account, plan.postings) == "posted"
    assert [accounts.used(SCOPES[:1], late + timedelta(hours=h))[0].tokens_month for h in (0, 1)] == [40, 7]
    after = plan_charge(accounts.account(lane), _batch(1, 10), SCOPES, at=late)
    assert after is not None
    assert set(after.account.replays) == {"2-a", "2-b"}
    later = plan_replay(
        after.account, "2-c", SCOPES, Amount(tokens=1), at=late + timedelta(hours=3), until_s=2_000_000_000
    )
    assert later is not None
    assert set(later.account.replays) == {"2-c"}


def test_a_change_that_no_value_allows_is_impossible() -> None:
    scope = Scope(tenant="t")
    assert Posting(scope=scope, month="2026-11", amount=Amount(tokens=5), most_tokens=-1).is_impossible
    assert not Posting(scope=scope, month="2026-11", amount=Amount(tokens=5), most_tokens=0).is_impossible
    assert not NOTHING


def test_given_limits_override_only_their_own_defaults() -> None:
    defaults = Limits(tokens_day=5, usd_day=1.0, stopped="paused")
    held = overlaid(defaults, Limits(tokens_day=0, stopped=""))
    assert (held.tokens_day, held.usd_day, held.stopped, held.storage_bytes) == (0, 1.0, "", None)


def test_accounts_have_kinds_and_names_without_the_users() -> None:
    assert [scope.kind for scope in SCOPES] == ["user", "project", "tenant"]
    assert [scope.key().count("#") for scope in SCOPES] == [2, 1, 0]
    assert (
        len({scope.key() for scope in (*SCOPES, *scopes_of("t", "p", "v"), *scopes_of("t", "q", "u"))}) == 6
    )


def test_a_day_and_a_month_end_at_midnight_utc() -> None:
    last = ends(datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC))
    assert {last.minute, last.day, last.month} == {"2027-01-01T00:00:00.000Z"}
    assert ends(BEGAN).month == "2026-12-01T00:00:00.000Z"


def test_every_limit_has_a_sentence_with_and_without_its_names() -> None:
    for code in ("limit_tokens", "limit_usd", "limit_storage", "limit_turns", "stopped"):
        for names in ("", "user day", "project month [retry_after_s=9]", "tenant held", "tenant -"):
            assert limit_sentence(code, names)[-1] == "."
    assert Used() == Used(turns=0)
