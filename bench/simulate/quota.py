"""The quotas that a stage meets, as a new account of a large region has them.

A `rate` is a token bucket: a number a second, `burst` at once. A `level` is a number at one time. Figures are defaults of us-east-1;
their pages are in `source`, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from stepline.adapters.aws.table import ACCOUNT_SHARDS, OPEN_SHARDS

STEPS: Final = "Step Functions guide, service quotas"
GATEWAY: Final = "API Gateway guide, quotas"
LAMBDA: Final = "Lambda guide, quotas and scaling behavior"
DYNAMO: Final = "DynamoDB guide, quotas and partition key design"
PROVIDER: Final = "platform.claude.com, rate limits, tier Scale"
LOGS: Final = "CloudWatch Logs guide, quotas"
S3: Final = "S3 guide, performance design patterns"
SHARDS: Final = len(OPEN_SHARDS)
"""Partitions of the index of open lanes."""
PARTITION_WRITES: Final = 1_000
PARTITION_READS: Final = 3_000
MINUTE_S: Final = 60
SWEEP_EVERY_S: Final = 300


@dataclass(frozen=True)
class Quota:
    """One quota: its unit, its default, and the remedy when it is reached."""

    counts: str
    limit: float
    source: str
    lever: str
    kind: Literal["rate", "level"] = "rate"
    burst: float = 0.0

    def scaled(self, factor: float) -> Quota:
        """Return the quota with another limit."""
        return replace(self, limit=self.limit * factor, burst=self.burst * factor)


QUOTAS: Final[Mapping[str, Quota]] = {
    "model output": Quota(
        "tokens a second that the model writes, hidden thinking too",
        800_000 / MINUTE_S,
        PROVIDER,
        "ask the provider; a second provider or Bedrock by `model_provider`; less thinking",
        burst=800_000 / MINUTE_S * 10,
    ),
    "model requests": Quota(
        "rounds a second", 4_000 / MINUTE_S, PROVIDER, "ask the provider", burst=4_000 / MINUTE_S * 10
    ),
    "model input": Quota(
        "tokens a second that no cache had",
        4_000_000 / MINUTE_S,
        PROVIDER,
        "ask the provider; shorter tool results",
        burst=4_000_000 / MINUTE_S * 10,
    ),
    "executions of functions": Quota(
        "functions at work at one time",
        1_000,
        LAMBDA,
        "`concurrency`: Service Quotas, L-B99A9384; a new account has 10",
        kind="level",
    ),
    "new environments of Decide": Quota(
        "a second", 100, LAMBDA, "none: a steeper rise waits in the queue", burst=1_000
    ),
    "posts and messages": Quota(
        "requests a second at both APIs and their callbacks",
        10_000,
        GATEWAY,
        "rarer posts, by themselves; then Service Quotas, L-8A5B8E43, or another transport",
        burst=5_000,
    ),
    "new connections": Quota("a second", 500, GATEWAY, "Service Quotas, L-9ED1E49A", burst=500),
    "executions started": Quota(
        "StartExecution, a second", 300, STEPS, "Service Quotas for Step Functions", burst=1_300
    ),
    "executions asked for": Quota(
        "DescribeExecution by one sweep, of marks older than a minute",
        15 * SWEEP_EVERY_S,
        STEPS,
        "none needed: a sweep takes what it may, and the next goes on",
        kind="level",
    ),
    "transitions": Quota(
        "states entered a second", 5_000, STEPS, "Service Quotas for Step Functions", burst=5_000
    ),
    "index of open lanes": Quota(
        f"write units a second, {SHARDS} partitions",
        PARTITION_WRITES * SHARDS,
        DYNAMO,
        "more shards in `stepline/adapters/aws/table.py`",
        burst=PARTITION_WRITES * SHARDS,
    ),
    "row of one tenant": Quota(
        f"write units a second at each of {ACCOUNT_SHARDS}, if all turns are of one tenant: what it has spent",
        PARTITION_WRITES,
        DYNAMO,
        "more shards in `stepline/adapters/aws/table.py`",
        burst=PARTITION_WRITES,
    ),
    "limits of one tenant": Quota(
        "read units a second, if all turns are of one tenant: what it may spend",
        PARTITION_READS,
        DYNAMO,
        "none yet: a tenant of this size is divided",
        burst=PARTITION_READS,
    ),
    "table, written": Quota(
        "write units a second", 40_000, DYNAMO, "Service Quotas, L-F98FE922; warm throughput", burst=40_000
    ),
    "table, read": Quota(
        "read units a second", 40_000, DYNAMO, "Service Quotas, L-F98FE922; warm throughput", burst=40_000
    ),
    "objects put": Quota(
        "a second below one prefix", 3_500, S3, "none: S3 splits prefixes by itself", burst=3_500
    ),
    "log requests": Quota("a second", 5_000, LOGS, "Service Quotas for CloudWatch Logs", burst=5_000),
}
"""The quotas by name."""
