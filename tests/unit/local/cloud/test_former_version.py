"""After a deployment each function has the current version and, for a day if it has a snapshot, the previous one."""

import json
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.former_versions import (
    GROUP_OUTPUT,
    ROLE_OUTPUT,
    ROLLBACK_S,
    find_functions,
    plan_versions,
    retire_versions,
)
from tests.unit.local.cloud import recorded_programs
from tests.unit.local.cloud.recorded_programs import order, write_assembly

NAME = "stepline-dev-decide"
FUNCTION = {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": NAME}}
HELPER = {"Type": "AWS::Lambda::Function", "Properties": {}}
NOW = datetime(2026, 11, 28, 7, 30, 5, tzinfo=UTC)
ROLE = "arn:aws:iam::123456789012:role/ends"
SNAPSHOTS = {GROUP_OUTPUT: "stepline-dev-former-versions", ROLE_OUTPUT: ROLE}
"""The outputs of a stage whose versions have snapshots."""
TEMPLATES = {**recorded_programs.TEMPLATES, "stepline-dev-loop": {"Resources": {"F": FUNCTION, "H": HELPER}}}


@pytest.fixture
def with_functions(monkeypatch):
    monkeypatch.setattr(recorded_programs, "TEMPLATES", TEMPLATES)


def queue_versions(stub, numbers, live, **weights):
    """Queue AWS's answers about a function: its versions on two pages, and its alias."""
    first, second = numbers[:2], numbers[2:]
    listed = [{"Version": name} for name in ("$LATEST", *map(str, first))]
    stub.add_response("list_versions_by_function", {"Versions": listed, "NextMarker": "more"})
    stub.add_response("list_versions_by_function", {"Versions": [{"Version": str(one)} for one in second]})
    alias = {"FunctionVersion": str(live)}
    if weights:
        alias["RoutingConfig"] = {"AdditionalVersionWeights": {name[1:]: 0.1 for name in weights}}
    stub.add_response("get_alias", alias, {"FunctionName": NAME, "Name": "live"})


@pytest.mark.parametrize(
    ("versions", "named", "now", "later"),
    [
        ([1], [1], [], None),
        ([1, 2], [2], [], 1),
        ([1, 2, 3], [3], [1], 2),
        ([7, 4, 9, 2], [9], [2, 4], 7),
        ([1, 2, 3, 4], [2], [], 1),
        ([1, 2, 3, 4], [3, 4], [1], 2),
    ],
    ids=["the first", "one before", "two before", "unsorted", "moved back", "in mid-move"],
)
def test_the_version_before_ends_later_and_everything_that_is_newer_stays(versions, named, now, later):
    assert plan_versions(versions, named) == (now, later)


def test_older_versions_are_deleted_by_their_number(account, prompts):
    with Stubber(account.client("lambda")) as stub:
        queue_versions(stub, [3, 4, 5, 6], 6)
        for version in ("3", "4"):
            stub.add_response("delete_function", {}, {"FunctionName": NAME, "Qualifier": version})
        retire_versions(account, [NAME], {}, NOW, prompts.say)
        stub.assert_no_pending_responses()
    assert prompts.lines == []


def schedule(version):
    """The request by which AWS deletes a version a day after `NOW`."""
    return {
        "GroupName": "stepline-dev-former-versions",
        "Name": f"{NAME}-{version}",
        "ScheduleExpression": "at(2026-11-29T07:30:05)",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": "arn:aws:scheduler:::aws-sdk:lambda:deleteFunction",
            "RoleArn": ROLE,
            "Input": json.dumps({"FunctionName": NAME, "Qualifier": str(version)}),
            "RetryPolicy": {"MaximumRetryAttempts": 2},
        },
    }


def test_the_version_before_is_deleted_by_aws_once_its_day_is_over(account, prompts):
    assert ROLLBACK_S == 24 * 3600
    with Stubber(account.client("lambda")) as stub, Stubber(account.client("scheduler")) as clock:
        queue_versions(stub, [4, 5, 6], 6)
        stub.add_response("delete_function", {}, {"FunctionName": NAME, "Qualifier": "4"})
        clock.add_response("create_schedule", {"ScheduleArn": "arn"}, schedule(5))
        retire_versions(account, [NAME], SNAPSHOTS, NOW, prompts.say)
        stub.assert_no_pending_responses()
        clock.assert_no_pending_responses()
    assert prompts.lines == []


def test_a_function_that_the_release_did_not_change_keeps_its_first_schedule(account, prompts):
    with Stubber(account.client("lambda")) as stub, Stubber(account.client("scheduler")) as clock:
        queue_versions(stub, [5, 6], 6)
        clock.add_client_error("create_schedule", "ConflictException", expected_params=schedule(5))
        retire_versions(account, [NAME], SNAPSHOTS, NOW, prompts.say)
        clock.assert_no_pending_responses()
    assert prompts.lines == []


def test_a_schedule_that_aws_refuses_is_reported_and_the_next_function_gets_its_own(account, prompts):
    with Stubber(account.client("lambda")) as stub, Stubber(account.client("scheduler")) as clock:
        for _ in range(2):
            queue_versions(stub, [5, 6], 6)
        clock.add_client_error("create_schedule", "AccessDeniedException")
        clock.add_response("create_schedule", {"ScheduleArn": "arn"}, schedule(5))
        retire_versions(account, [NAME, NAME], SNAPSHOTS, NOW, prompts.say)
        clock.assert_no_pending_responses()
    (text,) = prompts.lines
    assert f"former versions of {NAME} remain" in text


def test_while_an_alias_moves_both_of_its_versions_count(account, prompts):
    with Stubber(account.client("lambda")) as stub:
        queue_versions(stub, [3, 4, 5, 6], 5, v6=0.1)
        stub.add_response("delete_function", {}, {"FunctionName": NAME, "Qualifier": "3"})
        retire_versions(account, [NAME], {}, NOW, prompts.say)
        stub.assert_no_pending_responses()


def test_a_refusal_by_aws_is_reported_and_the_next_function_is_checked(account, prompts):
    with Stubber(account.client("lambda")) as stub:
        stub.add_client_error("list_versions_by_function", "AccessDeniedException")
        queue_versions(stub, [1, 2], 2)
        retire_versions(account, ["stepline-dev-act", NAME], {}, NOW, prompts.say)
        stub.assert_no_pending_responses()
    (text,) = prompts.lines
    assert "former versions of stepline-dev-act remain" in text


@pytest.mark.usefixtures("with_functions")
def test_functions_of_the_stage_are_named_in_its_templates_and_those_of_the_cdk_are_not(tmp_path):
    write_assembly(tmp_path)
    assert json.dumps(TEMPLATES).count("AWS::Lambda::Function") == 2
    assert find_functions(tmp_path) == [NAME]


@pytest.mark.usefixtures("bootstrapped", "with_functions")
def test_a_deployment_that_succeeded_cleans_up_and_one_that_failed_does_not(context, programs, prompts):
    programs.failing.add("deploy")
    with pytest.raises(Exception, match="exit code 1"):
        deploy_stage(order(smoke=False), context)
    assert "former versions" not in prompts.text
    programs.failing.clear()
    deploy_stage(order(smoke=False), context)
    assert f"former versions of {NAME} remain" in prompts.text  # the fake account has no such function
