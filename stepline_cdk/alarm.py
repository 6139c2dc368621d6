"""The alarms of a deployment and its dashboard, made from the table in `watch`. Source: docs/how-to/runbook.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from stepline_cdk.stage import Stage
from stepline_cdk.watch import Series, Watch, Watched, plan_watches

GRAPHS_A_ROW: Final = 3
TELL_APART: Final = ("FunctionName", "GlobalSecondaryIndexName", "QueueName")
"""The dimensions by which the series of one graph differ."""


def add_alarms(scope: Construct, stage: Stage, watched: Watched) -> list[cloudwatch.Alarm]:
    """Add the stage's alarms to a stack, if enabled; each notifies its topic of both state changes."""
    if not stage.alarms:
        return []
    folder = Construct(scope, "Alarms")
    watches = plan_watches(stage, watched)
    alarms = [_add(folder, stage, watch, watch.threshold) for watch in watches if watch.threshold is not None]
    if stage.alarm_topic_arn:
        topic = sns.Topic.from_topic_arn(folder, "Topic", stage.alarm_topic_arn)
        for alarm in alarms:
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))
    else:
        cdk.Annotations.of(scope).add_warning_v2(
            "stepline:alarms",
            f"the alarms of stage {stage.name} notify no one: name a topic ({stage.spell('alarm_topic_arn=arn:aws:sns:…')})",
        )
    return alarms


def add_dashboard(
    scope: Construct, stage: Stage, watched: Watched, alarms: Sequence[cloudwatch.Alarm]
) -> None:
    """Add the stage's dashboard, if enabled: the state of its alarms, and a graph of every row of the table."""
    if not stage.dashboard:
        return
    state = cloudwatch.AlarmStatusWidget(title="alarms", alarms=alarms, width=24, height=4)
    graphs = [_graph(watch) for watch in plan_watches(stage, watched)]
    cloudwatch.Dashboard(
        scope,
        "Dashboard",
        dashboard_name=stage.optional_name("dashboard"),
        period_override=cloudwatch.PeriodOverride.INHERIT,
        widgets=[
            *([[state]] if alarms else []),
            *(graphs[at : at + GRAPHS_A_ROW] for at in range(0, len(graphs), GRAPHS_A_ROW)),
        ],
    )


def _graph(watch: Watch) -> cloudwatch.GraphWidget:
    """Return a graph of the values that the alarm compares, with its threshold; the parts of a sum are stacked."""
    period = cdk.Duration.seconds(watch.period_s)
    is_sum = watch.threshold is not None and len(watch.series) > 1
    lines = [_metric(watch)] if watch.share else [_read(one, period, label=True) for one in watch.series]
    limits = [] if watch.threshold is None else [watch.threshold]
    return cloudwatch.GraphWidget(
        title=f"{watch.name}: {watch.says}",
        left=lines,
        left_y_axis=cloudwatch.YAxisProps(min=0, show_units=False),
        left_annotations=[
            cloudwatch.HorizontalAnnotation(value=limit, label="alarm", color=cloudwatch.Color.RED)
            for limit in limits
        ],
        stacked=is_sum,
        width=24 // GRAPHS_A_ROW,
    )


def _add(scope: Construct, stage: Stage, watch: Watch, threshold: float) -> cloudwatch.Alarm:
    comparison = cloudwatch.ComparisonOperator
    return cloudwatch.Alarm(
        scope,
        watch.name.title().replace("-", ""),
        alarm_name=stage.needed_name("alarm", watch.name),
        alarm_description=watch.description,
        metric=_metric(watch),
        threshold=threshold,
        comparison_operator=comparison.LESS_THAN_OR_EQUAL_TO_THRESHOLD
        if watch.falls
        else comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        evaluation_periods=2,
        datapoints_to_alarm=1,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )


def _metric(watch: Watch) -> cloudwatch.IMetric:
    """Return the value that the alarm compares: a metric, a sum of several, or a share."""
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


def _read(series: Series, period: cdk.Duration, *, label: bool = False) -> cloudwatch.Metric:
    """Return a metric, with a label that distinguishes it from the others of its graph."""
    apart = [value for name, value in series.dimensions.items() if name in TELL_APART]
    statistic = [] if series.statistic == "Sum" else [series.statistic]
    return cloudwatch.Metric(
        label=" ".join([series.name, *apart, *statistic]) if label else None,
        namespace=series.namespace,
        metric_name=series.name,
        dimensions_map=dict(series.dimensions),
        statistic=series.statistic,
        period=period,
    )
