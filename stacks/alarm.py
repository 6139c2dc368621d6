"""The alarms of a deployment, made from the table of what is watched. Source: docs/how-to/runbook.md."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stacks.stage import Stage
from stacks.watch import Series, Watch, Watched, alarm_name, plan_watches


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
    comparison = cloudwatch.ComparisonOperator
    return cloudwatch.Alarm(
        scope,
        watch.name.title().replace("-", ""),
        alarm_name=alarm_name(stage, watch.name),
        alarm_description=watch.description,
        metric=_metric(watch),
        threshold=watch.threshold,
        comparison_operator=comparison.LESS_THAN_OR_EQUAL_TO_THRESHOLD
        if watch.falls
        else comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        evaluation_periods=2,
        datapoints_to_alarm=1,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )


def _metric(watch: Watch) -> cloudwatch.IMetric:
    """Return what the alarm compares: a metric, a sum of several, or a share."""
    period = cdk.Duration.seconds(watch.period_s)
    read: dict[str, Any] = {f"m{at}": _read(one, period) for at, one in enumerate(watch.series)}
    if len(read) == 1 and watch.share is None:
        return read["m0"]  # type: ignore[no-any-return]  # jsii's types know no mapping of metrics
    # A sum has no data where one of its parts has none, unless that is filled with 0.
    compared = " + ".join(f"FILL({name}, 0)" for name in read)
    if watch.share:
        read["whole"] = _read(watch.share.whole, period)
        # Where the whole has no data, neither has the share, which is good.
        compared = f"IF(whole >= {watch.share.least}, ({compared}) / whole, {int(watch.falls)})"
    return cloudwatch.MathExpression(expression=compared, using_metrics=read, period=period, label=watch.name)


def _read(series: Series, period: cdk.Duration) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=series.namespace,
        metric_name=series.name,
        dimensions_map=dict(series.dimensions),
        statistic=series.statistic,
        period=period,
    )
