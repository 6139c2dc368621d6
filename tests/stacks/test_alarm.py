import json
import re

import pytest

from stepline import metrics
from stepline.loop.graph import TASKS
from stepline_cdk.loop import RECEIVERS
from stepline_cdk.watch import RUNBOOK

from .conftest import ROOT, TOPIC, synthesise

PAGE = (ROOT / RUNBOOK).read_text()
HEADINGS = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)

# Namespace and metric → the dimensions under which AWS publishes it, from the services' own pages on monitoring.
PUBLISHED = {
    ("AWS/States", "ExecutionsFailed"): [{"StateMachineArn"}],
    ("AWS/States", "ExecutionsTimedOut"): [{"StateMachineArn"}],
    ("AWS/States", "ExecutionsAborted"): [{"StateMachineArn"}],
    ("AWS/States", "ExecutionThrottled"): [{"StateMachineArn"}],
    ("AWS/Lambda", "Errors"): [{"FunctionName"}, set()],
    ("AWS/Lambda", "Throttles"): [{"FunctionName"}, set()],
    ("AWS/Lambda", "Duration"): [{"FunctionName"}, set()],
    ("AWS/Lambda", "UnreservedConcurrentExecutions"): [set()],
    ("AWS/DynamoDB", "ReadThrottleEvents"): [{"TableName"}, {"TableName", "GlobalSecondaryIndexName"}],
    ("AWS/DynamoDB", "WriteThrottleEvents"): [{"TableName"}, {"TableName", "GlobalSecondaryIndexName"}],
    ("AWS/DynamoDB", "SystemErrors"): [{"TableName", "Operation"}],
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"): [{"QueueName"}],
    ("AWS/ApiGateway", "IntegrationError"): [{"ApiId"}, {"ApiId", "Stage"}],
    ("AWS/ApiGateway", "ExecutionError"): [{"ApiId"}, {"ApiId", "Stage"}],
    ("AWS/ApiGateway", "5xx"): [{"ApiId"}, {"ApiId", "Stage"}],
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    return synthesise(
        tmp_path_factory,
        name="watched",
        alarms=True,
        alarm_topic_arn=TOPIC,
        dashboard=True,
        exec_mode="fargate",
        exec_image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1",
    )


@pytest.fixture(scope="module")
def alarms(watched):
    found = watched.resources("AWS::CloudWatch::Alarm").values()
    return {alarm["AlarmName"].removeprefix("stepline-watched-"): alarm for alarm in found}


def series(alarm):
    """Every metric that an alarm reads: namespace, name, dimensions by name."""
    stats = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", ()) if "MetricStat" in query]
    return [
        (one["Namespace"], one["MetricName"], {d["Name"]: d["Value"] for d in one.get("Dimensions", ())})
        for one in stats or [alarm]
    ]


def test_every_alarm_has_its_line_of_the_runbook_and_no_line_is_left_over(alarms):
    assert sorted(alarms) == sorted(HEADINGS)
    for name, alarm in alarms.items():
        says, _, link = alarm["AlarmDescription"].rpartition(" ")
        assert link == f"{RUNBOOK}#{name}"
        assert says.endswith(".")


def test_an_alarm_reads_metrics_of_aws_or_of_the_library(alarms):
    for name, alarm in alarms.items():
        for namespace, metric, dimensions in series(alarm):
            if namespace == metrics.NAMESPACE:
                assert dimensions == metrics.dimensions("watched"), name
            else:
                assert set(dimensions) in PUBLISHED[namespace, metric], name


def test_every_metric_of_ours_that_an_alarm_reads_is_counted_somewhere(alarms):
    ours = {
        metric for one in alarms.values() for space, metric, _ in series(one) if space == metrics.NAMESPACE
    }
    sources = [*(ROOT / "layers/runtime/python/stepline").rglob("*.py"), *(ROOT / "lambdas").rglob("*.py")]
    counted = {
        name for path in sources for name in re.findall(r"\b_?count\(\s*([A-Z_]+)\b", path.read_text())
    }
    assert ours
    assert ours <= {getattr(metrics, name) for name in counted}


def test_every_function_named_by_an_alarm_exists(watched, alarms):
    functions = {one["FunctionName"] for one in watched.resources("AWS::Lambda::Function").values()}
    named = {
        dimensions["FunctionName"]
        for alarm in alarms.values()
        for _, _, dimensions in series(alarm)
        if "FunctionName" in dimensions
    }
    assert named == {"stepline-watched-authorizer", "stepline-watched-decide"}
    assert named <= functions


def test_every_function_fails_into_an_alarm(watched, alarms):
    """By what calls it: a gateway, a rule with a queue, the state machine; the authorizer has an alarm of its own."""
    gateway = {(metric, *sorted(dimensions)) for _, metric, dimensions in series(alarms["gateway-errors"])}
    assert gateway == {
        ("IntegrationError", "ApiId", "Stage"),
        ("ExecutionError", "ApiId", "Stage"),
        ("5xx", "ApiId"),
    }
    queues = str(series(alarms["events-undelivered"]))
    assert all(f"{name.title()}Undelivered" in queues for name in RECEIVERS)
    stored = {
        one["FunctionName"].removeprefix("stepline-watched-")
        for one in watched.resources("AWS::Lambda::Function").values()
        if "DeadLetterConfig" in one
    }
    assert stored == set(RECEIVERS)
    called = "".join(
        json.dumps(one["IntegrationUri"])
        for one in watched.resources("AWS::ApiGatewayV2::Integration").values()
    )
    integrated = {name for name in watched.functions if f"{name.title()}Live" in called}
    assert integrated == {"socket", "api", "search", *(["stream"] if watched.stage.stream_readers else [])}
    steps = {task.function for task in TASKS}
    # Late output of a running program is of no use, so nothing waits for it; a call that is not served is an error of
    # its program.
    assert set(watched.functions) - steps - integrated - stored == {"authorizer", "output", "serve"}


@pytest.mark.parametrize("name", ["gateway-errors", "events-undelivered", "function-errors"])
def test_an_alarm_of_several_functions_names_them(alarms, name):
    named = {
        "gateway-errors": ("socket", "api", "search"),
        "events-undelivered": RECEIVERS,
        "function-errors": ("authorizer",),
    }
    assert all(function in alarms[name]["AlarmDescription"] for function in named[name])


def test_no_metric_is_paid_for_by_two_alarms(alarms):
    read = [json.dumps(one) for alarm in alarms.values() for one in series(alarm)]
    assert len(read) == len(set(read))


def test_no_data_is_good_news(alarms):
    for alarm in alarms.values():
        assert alarm["TreatMissingData"] == "notBreaching"
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (2, 1)


def expression(alarm):
    (found,) = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
    return found


def test_a_sum_has_a_value_when_a_part_of_it_has_no_data(alarms):
    sums = [alarm for alarm in alarms.values() if " + " in str(alarm.get("Metrics"))]
    assert sums
    for alarm in sums:
        assert expression(alarm) == " + ".join(f"FILL(m{at}, 0)" for at in range(len(series(alarm))))


def test_a_throttled_partition_of_every_index_is_seen(watched, alarms):
    (table,) = watched.resources("AWS::DynamoDB::GlobalTable").values()
    indexes = {index["IndexName"] for index in table["GlobalSecondaryIndexes"]}
    seen = {
        (dimensions["GlobalSecondaryIndexName"], metric)
        for _, metric, dimensions in series(alarms["index-refuses"])
    }
    assert seen == {
        (index, metric) for index in indexes for metric in ("ReadThrottleEvents", "WriteThrottleEvents")
    }


def test_a_share_says_nothing_while_there_is_little_of_the_whole(alarms):
    limits, cache = alarms["model-limits"], alarms["cache-falls"]
    assert expression(limits) == "IF(whole >= 20, (FILL(m0, 0)) / whole, 0)"
    assert expression(cache) == "IF(whole >= 1000000, (FILL(m0, 0)) / whole, 1)"
    assert [metric for _, metric, _ in series(limits)] == ["ModelRateLimits", "ModelAsks"]
    assert [metric for _, metric, _ in series(cache)] == ["CachedTokens", "InputTokens"]


def test_caches_ring_when_they_fall_and_everything_else_when_it_rises(alarms):
    falling = {name for name, alarm in alarms.items() if alarm["ComparisonOperator"].startswith("LessThan")}
    assert falling == {"cache-falls"}
    assert {
        alarm["ComparisonOperator"].removeprefix("LessThan").removeprefix("GreaterThan")
        for alarm in alarms.values()
    } == {"OrEqualToThreshold"}


def test_the_topic_hears_of_the_beginning_and_of_the_end(alarms):
    for alarm in alarms.values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [TOPIC]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return synthesise(tmp_path_factory, name="prod", alarms=True, oidc_issuer="https://login.example")


@pytest.fixture(scope="module")
def plain_alarms(plain):
    found = plain.resources("AWS::CloudWatch::Alarm").values()
    return {alarm["AlarmName"].removeprefix("stepline-prod-"): alarm for alarm in found}


def test_a_stage_without_programs_watches_none(plain_alarms):
    assert set(HEADINGS) - set(plain_alarms) == {"programs-lost", "handovers-stale"}


def test_alarms_without_a_topic_raise_a_warning(plain, plain_alarms, watched):
    assert not any("AlarmActions" in alarm for alarm in plain_alarms.values())
    assert "notify no one: name a topic (-c alarm_topic_arn=" in warnings(plain)
    assert "notify no one" not in warnings(watched)


def warnings(synthesis):
    return str([message.entry.data for stack in synthesis.assembly.stacks for message in stack.messages])


def test_the_local_stage_has_none(local):
    assert local.resources("AWS::CloudWatch::Alarm") == {}


def test_a_line_rings_when_as_many_wait_as_run(watched, alarms):
    waiting = alarms["turns-waiting"]
    assert (waiting["Statistic"], waiting["Threshold"]) == ("Maximum", watched.stage.most_turns)


# --- the dashboard


@pytest.fixture(scope="module")
def widgets(watched):
    (made,) = watched.resources("AWS::CloudWatch::Dashboard").values()
    assert made["DashboardName"] == "stepline-watched"
    parts = made["DashboardBody"]["Fn::Join"][1]
    body = "".join(part if isinstance(part, str) else next(map(str, part.values())) for part in parts)
    return json.loads(body)["widgets"]


def test_the_dashboard_has_the_state_of_every_alarm_and_a_graph_of_each(widgets, alarms):
    state, *graphs = widgets
    assert state["type"] == "alarm"
    assert len(state["properties"]["alarms"]) == len(alarms)
    titles = {graph["properties"]["title"].partition(":")[0]: graph["properties"] for graph in graphs}
    assert alarms.keys() <= titles.keys()
    for name, alarm in alarms.items():
        (limit,) = titles[name]["annotations"]["horizontal"]
        assert limit["value"] == alarm["Threshold"], name
        shown = [metric[:2] for metric in titles[name]["metrics"] if isinstance(metric[0], str)]
        assert {tuple(metric) for metric in shown} == {(space, one) for space, one, _ in series(alarm)}, name


def test_graphs_beside_the_alarms_show_counted_traffic(widgets, alarms):
    more = [one["properties"] for one in widgets[1:] if "annotations" not in one["properties"]]
    assert {one["title"].partition(":")[0] for one in more} == {
        "turns",
        "first-delta",
        "tokens",
        "queue-wait",
    }
    assert len(widgets) == 1 + len(alarms) + len(more)


def test_one_dashboard_has_no_more_metrics_than_the_free_ones_may(widgets):
    shown = [
        metric for one in widgets[1:] for metric in one["properties"]["metrics"] if isinstance(metric[0], str)
    ]
    assert len(shown) <= 50


def test_only_a_stage_with_that_choice_has_a_dashboard(plain, dev):
    assert not plain.resources("AWS::CloudWatch::Dashboard")
    assert not dev.resources("AWS::CloudWatch::Dashboard")


# --- what the runbook has people type


def test_every_log_line_of_the_runbook_is_written_by_the_code():
    sources = [*(ROOT / "layers/runtime/python/stepline").rglob("*.py"), *(ROOT / "lambdas").rglob("*.py")]
    text = "\n".join(path.read_text() for path in sources)
    wanted = re.findall(r'\$\.message = "([^"]+)"', PAGE)
    assert wanted
    for message in wanted:
        assert re.search(rf'logger\.\w+\(\s*"{message}"', text), message


def test_every_name_it_gives_is_in_the_templates(watched):
    text = json.dumps(watched.documents()).replace("watched", "$STAGE")
    for name in re.findall(r"(?:/stepline/|stepline-)\$STAGE[-/]\w+", PAGE):
        assert name in text or name in {stack.replace("watched", "$STAGE") for stack in stacks(watched)}, name
    for output in re.findall(r"OutputKey=='(\w+)'", PAGE):
        assert any(output in one.get("Outputs", {}) for one in watched.documents().values()), output


def stacks(synthesis):
    return [stack.stack_name for stack in synthesis.assembly.stacks]


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        if path:
            assert ((ROOT / RUNBOOK).parent / path).exists(), target
        else:
            assert anchor in HEADINGS, target


@pytest.mark.parametrize(("name", "most"), [("watched", 8), ("prod", 159)])
def test_the_alarm_of_few_executions_left_counts_unreserved_ones(request, name, most):
    found = request.getfixturevalue(name).resources("AWS::CloudWatch::Alarm").values()
    (alarm,) = (one for one in found if one["AlarmName"].endswith("-concurrency-claimed"))
    assert alarm["Threshold"] == most
