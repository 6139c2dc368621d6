"""The bill: receipts with more units than the account used fail, and a bill that is not there yet proves nothing."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from stepline.local.caller import Caller
from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.bill_rows import add_receipts, judge_bill, prove_bill, read_bill


def answer(**quantities):
    groups = [
        {"Keys": [kind.replace("_", "-")], "Metrics": {"UsageQuantity": {"Amount": str(quantity)}}}
        for kind, quantity in quantities.items()
    ]
    return {"ResultsByTime": [{"Groups": groups}]}


def test_usage_types_are_units_with_and_without_a_region():
    found = read_bill(answer(EUC1_Request_ARM=3, Request=4, EUC1_ReadRequestUnits=5, EUC1_BoxUsage=9))
    assert found == {"function call": 7.0, "read unit": 5.0}


@pytest.mark.parametrize("billed", [{"function call": 10.0}, {"function call": 9.95, "transition": 1.0}])
def test_an_account_that_used_as_much_is_held(billed):
    judge_bill({"function call": 10.0, "write unit": 2.0}, billed)


def test_receipts_with_more_units_than_the_account_used_fail():
    with pytest.raises(NotHeldError, match="transition"):
        judge_bill({"function call": 10.0, "transition": 3.0}, {"function call": 99.0, "transition": 2.0})


@pytest.mark.parametrize("billed", [{}, {"transition": 1.0}])
def test_a_bill_without_the_units_proves_nothing(billed):
    with pytest.raises(NotRunError):
        judge_bill({"function call": 10.0}, billed)


def stage(api, *, local=False):
    caller = Caller(url="", user="u", home=Path(), token=str, local=local)
    return ProvedStage(
        name="trial",
        region="",
        machine_arn="",
        caller=caller,
        api=api,
        mint=lambda *_: "",
        aws=lambda _: None,
    )


def turn(day, quantity):
    line = SimpleNamespace(what="function call", quantity=quantity)
    return SimpleNamespace(started_at=f"{day}T10:00:00.000Z", aws=(line,))


def test_turns_of_the_day_are_added_and_no_others():
    rows = [
        SimpleNamespace(conversation=name, last_activity_at=f"{day}T23:00:00Z")
        for name, day in (("a", "2026-11-29"), ("b", "2026-11-28"), ("c", "2026-11-27"))
    ]
    turns = {
        "a": (turn("2026-11-28", 2), turn("2026-11-29", 4)),
        "b": (turn("2026-11-27", 8), turn("2026-11-28", 16)),
        "c": (turn("2026-11-28", 32),),
    }
    api = SimpleNamespace(
        list_all=lambda: SimpleNamespace(items=rows),
        get_receipts=lambda name: SimpleNamespace(turns=turns[name]),
    )
    assert add_receipts(stage(api), "2026-11-28") == {"function call": 18}


def test_an_emulated_account_has_no_bill():
    with pytest.raises(NotRunError):
        prove_bill(stage(None, local=True), "c")
