"""The concurrent executions that an account has for a stage, and the number of turns that they allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from stepline.adapters.aws.table import QUEUE
from stepline.ingress.enqueue import QUEUE_MAX
from stepline.local.check import Check, failed, passed, warned
from stepline.local.cloud.account import AwsAccount, aws_error_code, look
from stepline.local.counted import counted
from stepline.model.base import Value
from stepline.model.tenancy.concurrency import DOORS, UNRESERVED, divide

CHOICE: Final = "concurrency"
STREAM: Final = "stream"
"""The function whose executions are readers of streams that wait."""
BOUND: Final = "STEPLINE_OPEN_TURNS"
RESERVING: Final = ("decide", *DOORS, STREAM)
PERMISSIONS: Final = "lambda:GetAccountSettings and lambda:GetFunctionConcurrency"
USUAL: Final = 1000
"""The quota of an account that is not new."""
_ASK: Final = (
    "aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384"
    " --desired-value {}"
)


class Capacity(Value):
    """The concurrent executions of an account and region: all, the unreserved ones, and those reserved by the stage.

    Of those, `waiting` are for readers of streams that wait.
    """

    executions: int
    unreserved: int
    own: int
    waiting: int = 0

    @property
    def concurrency(self) -> int:
        """The executions that the stage can rely on."""
        return self.unreserved + self.own

    @property
    def turns(self) -> int:
        """The number of turns that run at once."""
        return divide(self.concurrency - self.waiting).open_turns

    def render(self) -> str:
        """Return the account's numbers as a sentence."""
        own = f", {self.own} reserved for this stage" if self.own else ""
        return f"{counted(self.executions, 'concurrent execution')} in this account and region, {self.unreserved:,} unreserved{own}"

    def render_request(self) -> str:
        """Return the command that requests a quota high enough for reservations."""
        return _ASK.format(USUAL if self.executions < USUAL else self.executions + USUAL)


def read_capacity(account: AwsAccount, stage: str) -> Capacity:
    """Read the account's capacity; `stage` may be empty, or not deployed yet. Raises botocore's errors."""
    limit = account.client("lambda").get_account_settings()["AccountLimit"]
    own = {name: _reserved(account, f"stepline-{stage}-{name}") for name in RESERVING if stage}
    return Capacity(
        executions=limit["ConcurrentExecutions"],
        unreserved=limit["UnreservedConcurrentExecutions"],
        own=sum(own.values()),
        waiting=own.get(STREAM, 0),
    )


def find_concurrency(account: AwsAccount, stage: str) -> Capacity | None:
    """Return the concurrent executions of an account, None if they cannot be read."""
    try:
        return read_capacity(account, stage)
    except (BotoCoreError, ClientError):
        return None


def check_concurrency(account: AwsAccount, stage: str, context: Mapping[str, str]) -> Check:
    """Check how many turns a stage can run at once, and that capacity can be reserved for its entry functions."""

    def question() -> Check:
        found = read_capacity(account, stage)
        detail = (
            f"{found.render()}: {counted(found.turns, 'turn')} at once, up to {QUEUE_MAX:,} more are queued"
        )
        if int(context.get(CHOICE) or 0) > found.concurrency:
            return failed(
                "concurrency",
                f"the setting {CHOICE}={context[CHOICE]} is more than the account has: {found.render()}",
                f"remove the setting: stepline deploy --stage {stage or 'NAME'} -c {CHOICE}=; or request more: {found.render_request()}",
            )
        if divide(found.concurrency).reserved:
            return passed("concurrency", detail)
        return warned(
            "concurrency",
            f"{detail}; too few to reserve some for connections, because AWS keeps {UNRESERVED} unreserved",
            found.render_request(),
        )

    return look("concurrency", PERMISSIONS, question, vital=False)


def check_turns(account: AwsAccount, stage: str, table: str) -> Check:
    """Compare the turns that a deployed stage may run at once with the account's current capacity.

    `table` is the stage's log table, with the queue; empty if it is unknown.
    """

    def question() -> Check:
        socket = account.client("lambda").get_function_configuration(
            FunctionName=f"stepline-{stage}-socket:live"
        )
        bound = int(socket.get("Environment", {}).get("Variables", {}).get(BOUND) or 0)
        found = read_capacity(account, stage)
        again = f"stepline deploy --stage {stage}"
        if not bound:
            return warned("turns", "the stage was deployed without a limit on open turns", again)
        queued = f", {_count_queued(account, table)} are queued now" if table else ""
        detail = (
            f"{counted(bound, 'turn')} at once, up to {QUEUE_MAX:,} more are queued{queued}; {found.render()}"
        )
        if bound > found.turns:
            return warned(
                "turns",
                f"{detail}: enough for {counted(found.turns, 'turn')}; clients may be refused while more run",
                f"{again}, or request more: {found.render_request()}",
            )
        room = (
            f": enough for {counted(found.turns, 'turn')}; use them with {again}"
            if bound < found.turns
            else ""
        )
        return passed("turns", detail + room)

    return look(
        "turns", f"lambda:GetFunctionConfiguration, dynamodb:Query, {PERMISSIONS}", question, vital=False
    )


def check_readers(account: AwsAccount, stage: str) -> Check:
    """Report how many readers of streams a deployed stage lets wait at once, or why none."""

    def question() -> Check:
        found = read_capacity(account, stage)
        if found.waiting:
            return passed("readers", f"{counted(found.waiting, 'reader')} of streams wait at once")
        spare = found.concurrency - UNRESERVED
        if spare > 0:
            return passed(
                "readers",
                f"streams are read without waiting; up to {counted(spare, 'execution')} could be reserved for readers"
                f" that wait: stepline deploy --stage {stage} -c stream_readers=N",
            )
        return passed(
            "readers",
            f"streams are read without waiting, because AWS keeps {UNRESERVED} executions unreserved: {found.render()};"
            f" for more: {found.render_request()}",
        )

    return look("readers", PERMISSIONS, question, vital=False)


def _count_queued(account: AwsAccount, table: str) -> int:
    """Return the number of queued turns."""
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


def _reserved(account: AwsAccount, function: str) -> int:
    """Return the executions reserved for a function, 0 if it does not exist."""
    try:
        found = account.client("lambda").get_function_concurrency(FunctionName=function)
    except ClientError as error:
        if aws_error_code(error) != "ResourceNotFoundException":
            raise
        return 0
    return int(found.get("ReservedConcurrentExecutions", 0))
