"""The report of a probe in a stage's task becomes a result of `stepline doctor --aws`. ECS and its logs are stubs."""

import json
from contextlib import ExitStack

import pytest
from botocore.stub import ANY, Stubber

from stepline.adapters.memory.clock import MemoryClock
from stepline.local.cloud.checks.probe import PATIENCE_S, check_isolation, probe_command, read_report
from stepline.model.program.execution import Isolation

TASK = "arn:aws:ecs:eu-central-1:123456789012:task/stepline-dev-exec/0123abcd"
OUTPUTS = {
    "ClusterName": "stepline-dev-exec",
    "TaskFamily": "stepline-dev-exec",
    "TaskSubnets": "subnet-1,subnet-2",
    "TaskSecurityGroups": "sg-1",
    "TaskPublicIp": "ENABLED",
}
FULL = {
    "seccomp": True,
    "kernel": "6.1.0",
    "landlock_abi": 6,
    "signals": "namespace",
    "refused": [],
}


def container(name):
    options = {"awslogs-group": "/stepline/dev/exec", "awslogs-stream-prefix": name}
    return {"name": name, "logConfiguration": {"logDriver": "awslogs", "options": options}}


def said(**found):
    return {"events": [{"message": "starting"}, {"message": f"stepline isolation: {json.dumps(found)}"}]}


@pytest.fixture
def task(account):
    """Return a function that queues the answers of ECS and its logs for one task."""
    with ExitStack() as stack:
        ecs = stack.enter_context(Stubber(account.client("ecs")))
        logs = stack.enter_context(Stubber(account.client("logs")))

        def answers(*looks, failures=()):
            definition = {"containerDefinitions": [container("supervisor"), container("executor")]}
            ecs.add_response("describe_task_definition", {"taskDefinition": definition})
            started = [] if failures else [{"taskArn": TASK}]
            expected = {
                "cluster": "stepline-dev-exec",
                "taskDefinition": "stepline-dev-exec",
                "launchType": "FARGATE",
                "startedBy": "stepline-doctor",
                "networkConfiguration": {
                    "awsvpcConfiguration": {
                        "subnets": ["subnet-1", "subnet-2"],
                        "securityGroups": ["sg-1"],
                        "assignPublicIp": "ENABLED",
                    }
                },
                "overrides": {
                    "containerOverrides": [
                        {"name": "supervisor", "command": ANY},
                        {"name": "executor", "command": probe_command()},
                    ]
                },
            }
            ecs.add_response("run_task", {"tasks": started, "failures": list(failures)}, expected)
            for status, events in looks:
                state = {"taskArn": TASK, "lastStatus": status, "stoppedReason": "CannotPullContainerError"}
                ecs.add_response("describe_tasks", {"tasks": [state]})
                if events is None:
                    logs.add_client_error("get_log_events", "ResourceNotFoundException")
                else:
                    stream = {
                        "logGroupName": "/stepline/dev/exec",
                        "logStreamName": "executor/executor/0123abcd",
                        "startFromHead": True,
                    }
                    logs.add_response("get_log_events", events, stream)
            if not failures:
                ecs.add_response("stop_task", {}, {"cluster": ANY, "task": TASK, "reason": ANY})
            return ecs, logs

        yield answers
        ecs.assert_no_pending_responses()
        logs.assert_no_pending_responses()


def check(account):
    return check_isolation(account, OUTPUTS, MemoryClock())


def test_the_reached_isolation_is_reported(account, task):
    task(("PROVISIONING", None), ("RUNNING", {"events": []}), ("RUNNING", said(isolation=FULL)))
    found = check(account)
    assert found.mark == "ok"
    assert "kernel 6.1.0; Landlock 6; signals: namespace; refused: nothing" in found.detail


def test_calls_that_the_host_refuses_are_named(account, task):
    refused = ["close_range: EPERM", "landlock_create_ruleset: EPERM"]
    task(("RUNNING", said(isolation={**FULL, "landlock_abi": 0, "refused": refused})))
    found = check(account)
    assert found.mark == "warn"
    assert "Landlock none" in found.detail
    assert "refused: close_range: EPERM, landlock_create_ruleset: EPERM" in found.detail


def test_a_jail_that_does_not_close_in_the_task_is_a_failure(account, task):
    task(("RUNNING", said(failed="PermissionError: seccomp")))
    found = check(account)
    assert (found.mark, "PermissionError: seccomp" in found.detail) == ("NO", True)


def test_a_task_that_is_not_started_says_why(account, task):
    task(failures=[{"reason": "RESOURCE:ENI"}])
    found = check(account)
    assert (found.mark, "RESOURCE:ENI" in found.detail) == ("NO", True)


def test_a_task_that_stops_without_a_word_says_why(account, task):
    task(("STOPPED", None))
    found = check(account)
    assert (found.mark, "CannotPullContainerError" in found.detail) == ("NO", True)


def test_a_task_whose_image_was_not_built_names_the_build(account, task):
    task(("STOPPED", None))
    found = check_isolation(account, {**OUTPUTS, "ImageProject": "stepline-dev-exec-image"}, MemoryClock())
    assert (found.mark, "no programs, because their image was not built" in found.detail) == ("NO", True)
    assert "aws codebuild start-build --project-name stepline-dev-exec-image" in found.remedy


def test_a_task_that_never_says_anything_is_given_up_and_stopped(account, task):
    task(*[("PROVISIONING", None)] * int(PATIENCE_S / 2 + 2))
    found = check(account)
    assert (found.mark, "has not reported" in found.detail) == ("NO", True)


def test_a_caller_who_may_not_start_tasks_gets_the_permission(account):
    with Stubber(account.client("ecs")) as ecs:
        ecs.add_client_error("describe_task_definition", "AccessDeniedException")
        found = check(account)
    assert found.mark == "unknown"
    assert "ecs:RunTask" in found.remedy


def test_a_stage_without_tasks_says_that_it_runs_no_programs(account):
    found = check_isolation(account, {"MachineArn": "arn"}, MemoryClock())
    assert found.mark == "off"
    assert "exec_image=none" in found.detail


def test_a_report_of_a_later_release_is_read():
    line = said(isolation={**FULL, "news": 1})["events"][1]["message"]
    assert read_report(line) == Isolation(
        seccomp=True, kernel="6.1.0", landlock_abi=6, signals="namespace", refused=()
    )
