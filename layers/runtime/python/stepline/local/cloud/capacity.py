"""The concurrent executions that an account has for a stage, and how many turns come of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from stepline.adapters.aws.table import QUEUE
from stepline.ingress.line_up import QUEUE_MOST
from stepline.local.check import Check, failed, passed, warned
from stepline.local.cloud.account import Account, error_code, look
from stepline.model.base import Value
from stepline.model.tenancy.concurrency import DOORS, UNRESERVED, divide

CHOICE: Final = "concurrency"
BOUND: Final = "STEPLINE_OPEN_TURNS"
RESERVING: Final = ("decide", *DOORS)
PERMISSIONS: Final = "lambda:GetAccountSettings and lambda:GetFunctionConcurrency"
USUAL: Final = 1000
"""The quota of an account that is not new."""
_ASK: Final = (
    "aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384"
    " --desired-value {}"
)


class Capacity(Value):
    """The executions at once of an account and region: all, those that no function reserved, and those that the stage did."""

    executions: int
    unreserved: int
    own: int

    @property
    def concurrency(self) -> int:
        """The executions that the stage may count on."""
        return self.unreserved + self.own

    @property
    def turns(self) -> int:
        """The turns that run at once."""
        return divide(self.concurrency).open_turns

    def render(self) -> str:
        """Return the account's side in words."""
        own = f" and {self.own} reserved for this stage" if self.own else ""
        return f"{self.executions} functions at a time in this account and region, {self.unreserved} of them not reserved{own}"

    def render_request(self) -> str:
        """Return the command that asks for enough to reserve from."""
        return _ASK.format(USUAL if self.executions < USUAL else self.executions + USUAL)


def read_capacity(account: Account, stage: str) -> Capacity:
    """Read what an account has; `stage` may be empty, or not deployed yet. Raises botocore's errors."""
    limit = account.client("lambda").get_account_settings()["AccountLimit"]
    return Capacity(
        executions=limit["ConcurrentExecutions"],
        unreserved=limit["UnreservedConcurrentExecutions"],
        own=sum(_reserved(account, f"stepline-{stage}-{name}") for name in RESERVING) if stage else 0,
    )


def find_concurrency(account: Account, stage: str) -> Capacity | None:
    """Return the executions of an account, None if it does not tell."""
    try:
        return read_capacity(account, stage)
    except (BotoCoreError, ClientError):
        return None


def check_concurrency(account: Account, stage: str, context: Mapping[str, str]) -> Check:
    """Check how many turns the account lets a stage run at once, and that its doors can be kept open by reservations."""

    def question() -> Check:
        found = read_capacity(account, stage)
        detail = (
            f"{found.render()}: {found.turns} turns run at once, and {QUEUE_MOST:,} more may wait in line"
        )
        if int(context.get(CHOICE) or 0) > found.concurrency:
            return failed(
                "concurrency",
                f"{CHOICE}={context[CHOICE]} was chosen, and the account has {found.render()}",
                f"forget the choice: stepline deploy --stage {stage or 'NAME'} -c {CHOICE}=; or ask for more: {found.render_request()}",
            )
        if divide(found.concurrency).reserved:
            return passed("concurrency", detail)
        return warned(
            "concurrency",
            f"{detail}; too few to reserve any for connections, since AWS keeps {UNRESERVED} for all",
            found.render_request(),
        )

    return look("concurrency", PERMISSIONS, question, vital=False)


def check_turns(account: Account, stage: str, table: str) -> Check:
    """Compare the turns that a deployed stage runs at once with those that the account has room for now.

    `table` is the one of its log, where the turns stand that wait; empty if it is not known.
    """

    def question() -> Check:
        socket = account.client("lambda").get_function_configuration(
            FunctionName=f"stepline-{stage}-socket:live"
        )
        bound = int(socket.get("Environment", {}).get("Variables", {}).get(BOUND) or 0)
        found = read_capacity(account, stage)
        again = f"stepline deploy --stage {stage}"
        if not bound:
            return warned("turns", "the stage was deployed without a bound of its open turns", again)
        waiting = f", {_count_waiting(account, table)} wait now" if table else ""
        detail = f"{bound} turns run at once, and {QUEUE_MOST:,} more may wait in line{waiting}; the account has {found.render()}"
        if bound > found.turns:
            return warned(
                "turns",
                f"{detail}: room for {found.turns} turns, and clients may be refused while more of them run",
                f"{again}, or ask for more: {found.render_request()}",
            )
        room = f": room for {found.turns} turns, for which {again}" if bound < found.turns else ""
        return passed("turns", detail + room)

    return look(
        "turns", f"lambda:GetFunctionConfiguration, dynamodb:Query, {PERMISSIONS}", question, vital=False
    )


def _count_waiting(account: Account, table: str) -> int:
    """Return the number of turns that wait in line."""
    pages = (
        account.client("dynamodb")
        .get_paginator("query")
        .paginate(
            TableName=table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": QUEUE}},
            Select="COUNT",
        )
    )
    return sum(page["Count"] for page in pages)


def _reserved(account: Account, function: str) -> int:
    """Return the executions reserved for a function, 0 if it does not exist."""
    try:
        found = account.client("lambda").get_function_concurrency(FunctionName=function)
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":
            raise
        return 0
    return int(found.get("ReservedConcurrentExecutions", 0))
