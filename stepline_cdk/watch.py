"""The table of alarms and graphs of a deployment: metrics, thresholds, and headings in the runbook. Pure.

An alarm is billed by the metrics it reads, merged or not, so each condition is read in one place only. Most of these metrics
have no data while nothing goes wrong, so missing data is not an alarm. Source: docs/how-to/runbook.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stepline import metrics
from stepline.loop.graph import TASKS
from stepline_cdk.owned import FEEDBACK_INDEX, LANE_INDEX, USER_INDEX
from stepline_cdk.stage import Stage

RUNBOOK: Final = "docs/how-to/runbook.md"
PERIOD_S: Final = 300
SLOW_FRACTION: Final = 0.9
LIMITED_MOST: Final = 0.1
"""Of the tries of model calls, the share that the provider may refuse for our rate: a few are retried within seconds."""
CACHED_LEAST: Final = 0.5
"""Of the input tokens, the share that comes from the provider's caches; in measured conversations it is 0.92."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One metric of CloudWatch, as read by an alarm."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    statistic: str = "Sum"


@dataclass(frozen=True, kw_only=True)
class Share:
    """The whole that a sum is a share of. Periods with less than `least` of it say nothing, and count as good."""

    whole: Series
    least: int


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One alarm, and one graph of the dashboard; without a threshold the graph alone.

    It goes off when the sum of `series` reaches `threshold` in one of the last two periods. With `share`, the sum's part of a whole is compared; with `falls`, the alarm goes off at or below the
    threshold. `name` is also its heading in the runbook. The older period counts as well because data may come late.
    """

    name: str
    says: str
    series: tuple[Series, ...]
    threshold: float | None = None
    period_s: int = PERIOD_S
    share: Share | None = None
    falls: bool = False

    @property
    def description(self) -> str:
        return f"{self.says} {RUNBOOK}#{self.name}"


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The metric dimensions of a deployment's parts.

    `queues` are the names of the dead-letter queues.
    """

    machine_arn: str
    table: str
    websocket_api_id: str
    websocket_stage: str
    http_api_id: str
    queues: tuple[str, ...] = ()


def plan_watches(stage: Stage, watched: Watched) -> list[Watch]:
    """Return the alarms of a deployment, and the graphs beside them."""
    watches = [
        *_traffic(stage),
        *_queue(stage),
        *_turns(stage, watched),
        *_functions(stage),
        *_services(stage, watched),
        *_model(stage),
    ]
    if watched.queues:
        watches.append(_undelivered(watched.queues))
    if stage.executes or stage.has_tasks:
        watches.append(
            Watch(
                name="programs-lost",
                says="Programs end without a result: their environment failed.",
                series=(_own(stage, metrics.PROGRAMS_LOST),),
                threshold=3,
                period_s=900,
            )
        )
    if stage.has_tasks:
        watches.append(
            Watch(
                name="handovers-stale",
                says="A task never fetched its secret, or its caller never deleted it; the sweeper did.",
                series=(_own(stage, metrics.HANDOVERS_STALE),),
                threshold=1,
            )
        )
    return watches


def _traffic(stage: Stage) -> Iterable[Watch]:
    return (
        Watch(
            name="turns",
            says="Turns that began, ended and failed.",
            series=tuple(
                _own(stage, name)
                for name in (metrics.TURNS_STARTED, metrics.TURNS_CLOSED, metrics.TURNS_FAILED)
            ),
        ),
        Watch(
            name="first-delta",
            says="Milliseconds from a request to the model to the first piece of its answer.",
            series=tuple(
                replace(_own(stage, metrics.FIRST_DELTA_MS), statistic=statistic)
                for statistic in ("p50", "p95")
            ),
        ),
        Watch(
            name="tokens",
            says="Tokens of the model: input, those of it from a cache, and output.",
            series=tuple(
                _own(stage, name)
                for name in (metrics.INPUT_TOKENS, metrics.CACHED_TOKENS, metrics.OUTPUT_TOKENS)
            ),
        ),
    )


def _queue(stage: Stage) -> Iterable[Watch]:
    return (
        Watch(
            name="queue-wait",
            says="Milliseconds that turns were queued before they began.",
            series=tuple(
                replace(_own(stage, metrics.QUEUE_WAIT_MS), statistic=statistic)
                for statistic in ("p95", "Maximum")
            ),
        ),
        Watch(
            name="turns-waiting",
            says="As many turns are queued as may run at once.",
            series=(replace(_own(stage, metrics.TURNS_WAITING), statistic="Maximum"),),
            threshold=stage.most_turns,
            period_s=900,
        ),
    )


def _turns(stage: Stage, watched: Watched) -> Iterable[Watch]:
    machine = {"StateMachineArn": watched.machine_arn}
    return (
        Watch(
            name="executions-lost",
            says="An execution ended without closing its turn.",
            series=tuple(
                Series(namespace="AWS/States", name=name, dimensions=machine)
                for name in ("ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted")
            ),
            threshold=1,
        ),
        Watch(
            name="executions-throttled",
            says="Step Functions holds back the steps of turns: the account takes more of them than its quota.",
            series=(Series(namespace="AWS/States", name="ExecutionThrottled", dimensions=machine),),
            threshold=1,
        ),
        Watch(
            name="turns-failed",
            says="People got an error for an answer.",
            series=(_own(stage, metrics.TURNS_FAILED),),
            threshold=5,
            period_s=900,
        ),
        Watch(
            name="turns-taken-over",
            says="The sweeper gave several turns to new executions.",
            series=(_own(stage, metrics.TURNS_TAKEN_OVER),),
            threshold=3,
            period_s=900,
        ),
        Watch(
            name="sweeps-behind",
            says="The sweeper did not check some open turns: it failed on them or had no time left.",
            series=(_own(stage, metrics.LANES_LEFT),),
            threshold=3,
            period_s=900,
        ),
        Watch(
            name="edge-errors",
            says="A function raised an error without a code: a bug.",
            series=(_own(stage, metrics.EDGE_ERRORS),),
            threshold=1,
        ),
    )


def _functions(stage: Stage) -> Iterable[Watch]:
    (decide_s,) = (task.function_timeout_s for task in TASKS if task.name == "Decide")
    return (
        Watch(
            name="function-errors",
            says="The authorizer fails, so no client can connect.",
            # The gateway counts no failure of a websocket's authorizer. Those of `socket`, `api`, `search` and `stream` are its
            # integrations' (`gateway-errors`); the events that `sweeper`, `eraser` and `preflight` failed three times are in
            # their queues (`events-undelivered`); those of the machine's functions end executions or turns.
            series=(_lambda("Errors", function=stage.needed_name("function", "authorizer")),),
            threshold=3,
        ),
        Watch(
            name="function-throttles",
            says="The account's functions are refused for want of concurrency.",
            series=(_lambda("Throttles"),),
            threshold=1,
        ),
        Watch(
            name="concurrency-claimed",
            says="Few executions at once are left for functions without a reservation in this account and region.",
            # Not `ClaimedAccountConcurrency`, which has every reservation in it, used or not.
            series=(_lambda("UnreservedConcurrentExecutions", statistic="Maximum"),),
            threshold=stage.division.claimed_most,
        ),
        Watch(
            name="decide-slow",
            says=f"One decision in a hundred takes {SLOW_FRACTION:.0%} of the time it may.",
            series=(_lambda("Duration", function=stage.needed_name("function", "decide"), statistic="p99"),),
            threshold=decide_s * 1000 * SLOW_FRACTION,
        ),
    )


def _services(stage: Stage, watched: Watched) -> Iterable[Watch]:
    table = {"TableName": watched.table}
    websocket = {"ApiId": watched.websocket_api_id, "Stage": watched.websocket_stage}
    return (
        Watch(
            name="table-refuses",
            says="DynamoDB throttles, or fails the write that commits.",
            series=(
                Series(namespace="AWS/DynamoDB", name="ReadThrottleEvents", dimensions=table),
                Series(namespace="AWS/DynamoDB", name="WriteThrottleEvents", dimensions=table),
                Series(
                    namespace="AWS/DynamoDB",
                    name="SystemErrors",
                    dimensions={**table, "Operation": "PutItem"},
                ),
            ),
            threshold=5,
        ),
        Watch(
            name="index-refuses",
            says="A partition of an index throttles, and writes of the table that it belongs to fail with it.",
            series=tuple(
                Series(
                    namespace="AWS/DynamoDB",
                    name=name,
                    dimensions={**table, "GlobalSecondaryIndexName": index},
                )
                for index in (USER_INDEX, FEEDBACK_INDEX, LANE_INDEX)
                for name in ("ReadThrottleEvents", "WriteThrottleEvents")
            ),
            threshold=5,
        ),
        Watch(
            name="posts-over-limit",
            says="API Gateway refuses posts to clients for their rate, so text comes later and in larger pieces.",
            series=(_own(stage, metrics.POSTS_OVER_LIMIT),),
            threshold=100,
        ),
        Watch(
            name="gateway-errors",
            says="API Gateway cannot reach `socket`, `api`, `search` or `stream`, or they fail.",
            series=(
                Series(namespace="AWS/ApiGateway", name="IntegrationError", dimensions=websocket),
                Series(namespace="AWS/ApiGateway", name="ExecutionError", dimensions=websocket),
                Series(namespace="AWS/ApiGateway", name="5xx", dimensions={"ApiId": watched.http_api_id}),
            ),
            threshold=3,
        ),
    )


def _undelivered(queues: tuple[str, ...]) -> Watch:
    return Watch(
        name="events-undelivered",
        says="`sweeper`, `eraser` or `preflight` failed an event three times, or could not be called: nothing is swept, erased or checked.",
        series=tuple(
            Series(
                namespace="AWS/SQS",
                name="ApproximateNumberOfMessagesVisible",
                dimensions={"QueueName": queue},
                statistic="Maximum",
            )
            for queue in queues
        ),
        threshold=1,
    )


def _model(stage: Stage) -> Iterable[Watch]:
    return (
        Watch(
            name="model-limits",
            says=f"The model's provider refuses {LIMITED_MOST:.0%} of our calls for their rate.",
            series=(_own(stage, metrics.MODEL_RATE_LIMITS),),
            share=Share(whole=_own(stage, metrics.MODEL_ASKS), least=20),
            threshold=LIMITED_MOST,
        ),
        Watch(
            name="cache-falls",
            says=f"At most {CACHED_LEAST:.0%} of the input tokens come from the provider's caches.",
            series=(_own(stage, metrics.CACHED_TOKENS),),
            share=Share(whole=_own(stage, metrics.INPUT_TOKENS), least=1_000_000),
            threshold=CACHED_LEAST,
            period_s=3600,
            falls=True,
        ),
    )


def _own(stage: Stage, name: str) -> Series:
    return Series(namespace=metrics.NAMESPACE, name=name, dimensions=metrics.dimensions(stage.name))


def _lambda(name: str, *, function: str = "", statistic: str = "Sum") -> Series:
    """Return a metric of one function over all its versions, or of the whole account."""
    dimensions = {"FunctionName": function} if function else {}
    return Series(namespace="AWS/Lambda", name=name, dimensions=dimensions, statistic=statistic)
