"""The bill: yesterday's units of the receipts against those of the account in Cost Explorer, which lags by a day.

Source: API reference of Cost Explorer, GetCostAndUsage. A request costs a cent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage

REQUEST_USD: Final = 0.01
BILL_RIGHT: Final = "ce:GetCostAndUsage"
USAGE_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "function call": ("Request", "Request-ARM"),
    "function time": ("Lambda-GB-Second", "Lambda-GB-Second-ARM"),
    "transition": ("StateTransition",),
    "read unit": ("ReadRequestUnits",),
    "write unit": ("WriteRequestUnits",),
    "S3 put": ("Requests-Tier1",),
    "S3 get": ("Requests-Tier2",),
    "post": ("ApiGatewayMessage",),
    "task processor": ("Fargate-ARM-vCPU-Hours:perCPU",),
    "task memory": ("Fargate-ARM-GB-Hours",),
}
"""The usage types of a receipt's units; in most regions a code and a dash precede them, such as `EUC1-`."""
SHARE: Final = 0.99
"""Cost Explorer rounds."""


def prove_bill(stage: ProvedStage, _conversation: str) -> Evidence:
    """Add up the receipts of yesterday's turns of the user, and read what the account used."""
    if stage.caller.local:
        raise NotRunError("an emulated account has no bill")
    today = datetime.now(UTC).date()
    day = today - timedelta(days=1)
    receipts = add_receipts(stage, f"{day}")
    if not receipts:
        raise NotRunError(f"the user has no turn of {day}: run it again tomorrow, as the same user")
    answer = stage.aws("ce").get_cost_and_usage(
        TimePeriod={"Start": f"{day}", "End": f"{today}"},
        Granularity="DAILY",
        Metrics=["UsageQuantity"],
        GroupBy=[{"Type": "DIMENSION", "Key": "USAGE_TYPE"}],
    )
    billed = read_bill(answer)
    judge_bill(receipts, billed)
    return {
        "day": f"{day}",
        **{name: f"{used:g} of {billed.get(name, 0.0):g} billed" for name, used in receipts.items()},
    }


def add_receipts(stage: ProvedStage, day: str) -> dict[str, float]:
    """Return the units of the turns that began on a day, of the user's conversations since then."""
    units: dict[str, float] = dict.fromkeys(USAGE_TYPES, 0.0)
    for row in stage.api.list_all().items:
        if row.last_activity_at[:10] < day:
            continue
        for turn in stage.api.get_receipts(row.conversation).turns:
            if turn.started_at.startswith(day):
                for line in turn.aws:
                    units[line.what] = units.get(line.what, 0.0) + line.quantity
    return {name: units[name] for name in USAGE_TYPES if units[name]}


def read_bill(answer: Mapping[str, Any]) -> dict[str, float]:
    """Return the units by their name in a receipt. A usage type of none of them is left out."""
    found: dict[str, float] = {}
    for period in answer["ResultsByTime"]:
        for group in period["Groups"]:
            quantity = float(group["Metrics"]["UsageQuantity"]["Amount"])
            usage_type = f"-{group['Keys'][0]}"
            for name, kinds in USAGE_TYPES.items():
                if usage_type.endswith(tuple(f"-{kind}" for kind in kinds)):
                    found[name] = found.get(name, 0.0) + quantity
    return found


def judge_bill(receipts: Mapping[str, float], billed: Mapping[str, float]) -> None:
    """Require that the account used at least the units of the receipts: it may have other users.

    A unit that the bill does not have yet is not compared. Raises NotRunError if it has none of them.
    """
    known = receipts.keys() & billed.keys()
    if not known:
        raise NotRunError("Cost Explorer does not have yesterday's units yet")
    less = {name: (receipts[name], billed[name]) for name in known if billed[name] < receipts[name] * SHARE}
    require(not less, f"the receipts have more units than the account used: {less}")
