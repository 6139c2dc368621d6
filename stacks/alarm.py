"""The alarms of a deployment, made from the table of what is watched. Source: docs/how-to/runbook.md."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.stage import Stage
from stacks.watch import Watch, Watched, plan_watches


def add_alarms(scope: Construct, stage: Stage, watched: Watched) -> list[cloudwatch.Alarm]:
    """Add the stage's alarms to a stack, if enabled; each notifies its topic of both state changes."""
    if not stage.alarms:
        return []
    folder = Construct(scope, "Alarms")
    alarms = [_add(folder, stage, watch) for watch in plan_watches(stage, watched)]
    if stage.alarm_topic_arn:
        topic = sns.Topic.from_topic_arn(folder, "Topic", stage.alarm_topic_arn)
        for alarm in alarms:
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))
    return alarms


def _add(scope: Construct, stage: Stage, watch: Watch) -> cloudwatch.Alarm:
    return cloudwatch.Alarm(
        scope,
        watch.name.title().replace("-", ""),
        alarm_name=f"stepline-{stage.name}-{watch.name}",
        alarm_description=watch.description,
        metric=_metric(watch),
        threshold=watch.threshold,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        evaluation_periods=2,
        datapoints_to_alarm=1,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )


def _metric(watch: Watch) -> cloudwatch.IMetric:
    period = cdk.Duration.seconds(watch.period_s)
    read: dict[str, Any] = {
        f"m{at}": cloudwatch.Metric(
            namespace=one.namespace,
            metric_name=one.name,
            dimensions_map=dict(one.dimensions),
            statistic=one.statistic,
            period=period,
        )
        for at, one in enumerate(watch.series)
    }
    if len(read) == 1:
        return read["m0"]  # type: ignore[no-any-return]  # jsii's types know no mapping of metrics
    # A sum has no data where one of its parts has none, unless that is filled with 0.
    filled = " + ".join(f"FILL({name}, 0)" for name in read)
    return cloudwatch.MathExpression(expression=filled, using_metrics=read, period=period)
