import json

import pytest
from aws_cdk.assertions import Match

from stepline.loop import graph
from stepline.loop.sweep import SWEEP_S
from stepline_cdk.access import ACCESS
from stepline_cdk.definition import render_definition
from stepline_cdk.function import SIZES
from stepline_cdk.loop import ENDED_BADLY


def definition(synthesis):
    """The machine's definition with each reference to an alias replaced by its function's name."""
    (machine,) = synthesis.resources("AWS::StepFunctions::StateMachine").values()
    parts = machine["DefinitionString"]["Fn::Join"][1]
    return json.loads("".join(part if isinstance(part, str) else _name(part["Ref"]) for part in parts))


def _name(reference):
    if reference == "AWS::Partition":
        return "aws"
    return next(name for name in ACCESS if reference.startswith(f"{name.title()}Live"))


def rules(synthesis):
    return synthesis.resources("AWS::Events::Rule").values()


def test_the_machine_is_the_table(any_stage):
    functions = {name: name for name in any_stage.functions}
    assert definition(any_stage) == render_definition(functions, remote=any_stage.stage.has_tasks)


def test_the_machine_is_standard_and_has_a_fixed_name(any_stage):
    any_stage.templates["loop"].has_resource_properties(
        "AWS::StepFunctions::StateMachine",
        {"StateMachineName": f"stepline-{any_stage.stage.name}-loop", "StateMachineType": "STANDARD"},
    )


def test_the_output_of_a_task_does_not_replace_the_step(prod):
    assert definition(prod)["States"]["ExecuteTask"]["ResultPath"] is None


def test_programs_run_where_the_stage_says(prod, dev, local):
    states = {synthesis.stage.name: set(definition(synthesis)["States"]) for synthesis in (prod, dev, local)}
    assert {"Prepare", "Launch", "ExecuteTask"} <= states["prod"]
    assert "Execute" not in states["prod"]
    assert {"Prepare", "Launch", "Execute"} <= states["local"]
    assert not {"Prepare", "Launch", "Execute", "ExecuteTask"} & states["dev"]
    assert "execute" in local.functions
    assert not {"execute"} & {*prod.functions, *dev.functions}


def test_a_copied_log_of_a_program_triggers_output(prod, dev, local):
    for stage in (prod, local):
        (rule,) = [rule for rule in rules(stage) if "log.json" in str(rule)]
        detail = rule["EventPattern"]["detail"]
        assert rule["EventPattern"]["detail-type"] == ["Object Created"]
        assert detail["object"] == {"key": [{"wildcard": "exec/*/log.json"}]}
        assert [stage.roles.text("loop", name) for name in detail["bucket"]["name"]] == ["<Artifacts>"]
        (target,) = rule["Targets"]
        assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
        assert "output" in stage.functions
    assert "log.json" not in str(list(rules(dev)))
    assert "output" not in dev.functions


def test_the_end_of_a_scan_starts_the_judge_where_guardduty_scans(bedrock):
    (rule,) = [rule for rule in rules(bedrock) if "quarantine/" in str(rule)]
    assert rule["EventPattern"]["source"] == ["aws.guardduty"]
    assert rule["EventPattern"]["detail"]["s3ObjectDetails"]["objectKey"] == [{"prefix": "quarantine/"}]


@pytest.mark.parametrize("name", ["prod", "dev", "local"])
def test_a_file_in_quarantine_starts_its_judge(request, name):
    any_stage = request.getfixturevalue(name)
    (bucket,) = any_stage.resources("AWS::S3::Bucket").values()
    assert bucket["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    (rule,) = [rule for rule in rules(any_stage) if "quarantine/" in str(rule)]
    detail = rule["EventPattern"]["detail"]
    assert detail["object"] == {"key": [{"prefix": "quarantine/"}]}
    assert [any_stage.roles.text("loop", name) for name in detail["bucket"]["name"]] == ["<Artifacts>"]
    (target,) = rule["Targets"]
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 2}


def test_a_state_outlasts_its_function(any_stage):
    for task in (task for task in graph.TASKS if task.function in any_stage.functions):
        assert SIZES[task.function].timeout_s + 30 <= task.timeout_s


def test_an_execution_that_ends_badly_wakes_the_sweeper(any_stage):
    any_stage.templates["loop"].has_resource_properties(
        "AWS::Events::Rule",
        {
            "EventPattern": Match.object_like(
                {
                    "detail-type": ["Step Functions Execution Status Change"],
                    "detail": Match.object_like({"status": list(ENDED_BADLY)}),
                }
            )
        },
    )


def test_a_task_of_ours_that_stops_wakes_the_sweeper(prod, dev):
    (rule,) = [rule for rule in rules(prod) if "ECS Task State Change" in str(rule)]
    detail = rule["EventPattern"]["detail"]
    assert (detail["lastStatus"], detail["group"]) == (["STOPPED"], ["family:stepline-prod-exec"])
    assert [prod.roles.text("loop", arn) for arn in detail["clusterArn"]] == ["<Cluster>"]
    assert "aws.ecs" not in str(list(rules(dev)))


def test_a_sweep_ends_within_its_function_and_before_the_next_one():
    assert SWEEP_S + 60 <= SIZES["sweeper"].timeout_s <= graph.SWEEP_EVERY_S


@pytest.mark.parametrize("name", ["Sweeper", "Eraser"])
def test_the_clocks_of_sweeper_and_eraser_tick_on_every_stage(any_stage, name):
    (rule,) = [one for one in rules(any_stage) if "ScheduleExpression" in one and f"{name}Live" in str(one)]
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(5 minutes)", "ENABLED")
    (target,) = rule["Targets"]
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 2}


def test_the_loop_hears_where_tasks_run(prod):
    (variables,) = {
        json.dumps(properties["Environment"]["Variables"], sort_keys=True)
        for properties in prod.resources("AWS::Lambda::Function").values()
        if ".act." in f".{properties['Handler'].split('.')[1]}."
    }
    heard = json.loads(variables)
    assert heard["EXEC_RUNTIME_MODE"] == "fargate"
    assert heard["FARGATE_CLUSTER"] == heard["FARGATE_TASK_DEFINITION"] == "stepline-prod-exec"
    assert prod.roles.text("loop", heard["FARGATE_SECURITY_GROUPS"]) == "<TaskGroup.GroupId>"
    assert prod.roles.text("loop", heard["FARGATE_SUBNETS"]).count("Subnet") >= 2


def test_the_prompt_hears_which_packages_a_program_may_import(local):
    (decide,) = [
        properties
        for properties in local.resources("AWS::Lambda::Function").values()
        if properties["Handler"] == "lambdas.decide.handler"
    ]
    assert decide["Environment"]["Variables"]["STEPLINE_EXEC_PACKAGES"] == "numpy,pandas"
