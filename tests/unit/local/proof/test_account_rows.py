"""Accounts: a receipt that does not add up, a limit that is left, and a deleted conversation that is read fail."""

import pytest
from msgspec.structs import replace

from stepline.inspection.receipt import AwsCost, OtherReceipt, Receipts, RoundReceipt, TurnReceipt
from stepline.inspection.rounds import Tokens
from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.row.account_rows import add_tokens, judge_gone, judge_receipts, judge_restored
from stepline.model.tenancy.limits import Limits

ONE = Tokens(**dict.fromkeys(Tokens.__struct_fields__, 1))
TWO = add_tokens(ONE, ONE)
COST = AwsCost(what="request", quantity=1.0, usd=0.25)
TURN = TurnReceipt(
    turn_id="t", started_at="", elapsed_ms=1, model_ms=1, tools_ms=1, tokens=TWO, usd=0.5, priced=True,
    rounds=(RoundReceipt(iteration=0, decided_n=2, model="m", tokens=ONE, usd=0.4, started_at="", model_ms=1),),
    other=(OtherReceipt(n=3, kind="title", tokens=ONE, usd=0.1),), aws=(COST,), aws_usd=0.25,
)  # fmt: skip
GOOD = Receipts(turns=(TURN,), tokens=TWO, usd=0.5, priced=True, aws=(COST, COST), aws_usd=0.5)


def with_turn(**changes):
    return replace(GOOD, turns=(replace(TURN, **changes),))


def test_a_receipt_that_adds_up_is_held():
    judge_receipts(GOOD)
    judge_receipts(with_turn(usd=0.0, priced=False))


@pytest.mark.parametrize(
    "receipts",
    [
        replace(GOOD, turns=()),
        with_turn(rounds=()),
        with_turn(tokens=ONE),
        with_turn(usd=0.6),
        with_turn(aws_usd=0.3),
        replace(GOOD, tokens=ONE),
        replace(GOOD, aws_usd=0.25),
        replace(GOOD, turns=(TURN, TURN)),
    ],
)
def test_a_receipt_that_does_not_add_up_fails(receipts):
    with pytest.raises(NotHeldError):
        judge_receipts(receipts)


@pytest.mark.parametrize("code", ["", "not_found", "gateway"])
def test_a_deleted_conversation_that_is_read_fails(code):
    judge_gone({"events": "conversation_deleted"})
    with pytest.raises(NotHeldError):
        judge_gone({"events": "conversation_deleted", "files": code})


def test_a_limit_that_is_left_fails():
    judge_restored(Limits(usd_day=5.0), Limits(usd_day=5.0))
    with pytest.raises(NotHeldError):
        judge_restored(Limits(), Limits(tokens_day=1))
