"""The choices of how a stage runs: releases, limits, throttles, alarms and logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from stepline.model.tenancy.limits import Limits
from stepline.model.tenancy.request_rates import Rates
from stepline_cdk.bytecode import MAGIC, PYTHON_VERSION
from stepline_cdk.choice.declare import Choices, Count, choice, like, one_of

RETENTION_DAYS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""The periods of CloudWatch. Source: docs.aws.amazon.com/AmazonCloudWatchLogs, "PutRetentionPolicy"."""
LOG_RETENTION_DAYS: Final = 30
DEPLOY: Final = "../how-to/deploy.md"


class OperationChoices(Choices):
    """Releases, limits, alarms and logs."""

    python: Annotated[str, one_of(MAGIC)] = choice(
        PYTHON_VERSION, "Python of the functions: `3.12`, `3.13` or `3.14`, the ones with snapshots"
    )
    bytecode: bool = choice(
        True,
        "Ship bytecode with handlers and layers; `false`: deploy without, and without the warning",
    )
    snap_start: bool = choice(
        False,
        "Keep snapshots of `socket` and `decide`, which a turn's first token waits for",
        kept=True,
        cost="about 4 USD a month, and 0.13 for each deployment, whose"
        f" [previous version]({DEPLOY}#roll-back) stays for a day",
    )
    table_name: Annotated[str, like("[a-zA-Z0-9_.-]{3,255}", "the name of a table", empty=True)] = choice(
        "",
        "A table with the log of this stage that was [restored](../how-to/restore.md) to an earlier time; the stack's own then"
        " remains unchanged and unread",
        said="the stack's own",
        guarded=True,
    )
    concurrency: Count = choice(
        0,
        "Concurrent executions that the stage may use; they determine the"
        f" [turns at once]({DEPLOY}#how-many-turns-at-once), the reservations and the throttles",
        said="read from the account by `stepline deploy`, else those of a new account",
    )
    open_turns: Count = choice(
        0, "Turns that run at once; further ones are queued", said="from `concurrency`; in `local` `10`"
    )
    stream_readers: Count = choice(
        0,
        "Readers of [streams](../how-to/durable-streams.md) that wait at once, each in an execution of `concurrency` that is"
        " reserved for it; `0`: streams are read without waiting",
        local=4,
    )
    requests_per_s: Count = choice(
        0,
        "Throttle of the websocket API, and of the HTTP API",
        said=f"from the [turns at once]({DEPLOY}#how-many-turns-at-once)",
    )
    burst: Count = choice(
        0,
        "Requests at one moment that these throttles allow",
        said="as `requests_per_s`; twice the rate, if that is chosen",
    )
    limits: Mapping[str, Limits] = choice(
        {},
        "Default [limits](../concepts/tenants.md) by `user`, `project` and `tenant`; a row takes precedence",
        guarded=True,
    )
    prices: Mapping[str, Any] = choice({}, "Prices that override the release's table")
    user_messages_per_minute: int = choice(
        60,
        "Messages of one user in a minute, over all connections; `0`: bounded by the throttle alone",
    )
    rates: Mapping[str, Rates] = choice(
        {},
        "The [requests](../concepts/tenants.md#requests) of a `user` and of a `tenant` in a minute, instead of the defaults",
        guarded=True,
    )
    alarms: bool = choice(
        False,
        "Create alarms ([runbook](../how-to/runbook.md))",
        kept=True,
        cost="about 3.50 USD a month: 0.10 for each metric that is read",
    )
    alarm_topic_arn: Annotated[
        str, like(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:.+", "the ARN of a topic of SNS", empty=True)
    ] = choice(
        "",
        "SNS topic that is notified when an alarm begins and ends; without one, alarms cause a warning",
        guarded=True,
    )
    shift: Annotated[str, one_of(("all", "canary", "linear"))] = choice(
        "all",
        f"How a release takes over: `all` at once, or [by parts]({DEPLOY}#by-parts), `canary` or `linear`",
    )
    dashboard: bool = choice(
        False,
        "Create a dashboard of the alarms and of the traffic ([runbook](../how-to/runbook.md))",
        cost="3 USD a month; the first three of an account are free",
    )
    socket_access_log: bool = choice(
        False,
        f"Write an access log of the websocket API, like that of the HTTP API ([logs]({DEPLOY}#logs))",
        cost="0.50 USD a GB",
    )
    log_retention_days: Annotated[int, one_of(RETENTION_DAYS)] = choice(
        LOG_RETENTION_DAYS,
        f"Days for which [logs]({DEPLOY}#logs) are kept, one of the periods of CloudWatch: `1`, `3`, `5`, `7`, `14`, `30`, … `3653`",
        cost="storage, 0.03 USD a GB and month",
    )
