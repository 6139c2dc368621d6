"""After a deployment each function has the current version and the previous one; older ones are deleted."""

import json

import pytest
from botocore.stub import Stubber

from stepline.local.cloud.deploy import delete_former_versions, deploy_stage, find_functions, plan_deletions
from tests.unit.local.cloud import recorded_programs
from tests.unit.local.cloud.recorded_programs import order, write_assembly

NAME = "stepline-dev-decide"
FUNCTION = {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": NAME}}
HELPER = {"Type": "AWS::Lambda::Function", "Properties": {}}
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
    ("versions", "named", "gone"),
    [
        ([1], [1], []),
        ([1, 2], [2], []),
        ([1, 2, 3], [3], [1]),
        ([7, 4, 9, 2], [9], [2, 4]),
        ([1, 2, 3, 4], [2], []),
        ([1, 2, 3, 4], [3, 4], [1]),
    ],
    ids=["the first", "one before", "two before", "unsorted", "moved back", "in mid-move"],
)
def test_the_version_before_stays_and_so_does_everything_that_is_newer(versions, named, gone):
    assert plan_deletions(versions, named) == gone


def test_older_versions_are_deleted_by_their_number(account, prompts):
    with Stubber(account.client("lambda")) as stub:
        queue_versions(stub, [3, 4, 5, 6], 6)
        for version in ("3", "4"):
            stub.add_response("delete_function", {}, {"FunctionName": NAME, "Qualifier": version})
        delete_former_versions(account, [NAME], prompts.say)
        stub.assert_no_pending_responses()
    assert prompts.lines == []


def test_while_an_alias_moves_both_of_its_versions_count(account, prompts):
    with Stubber(account.client("lambda")) as stub:
        queue_versions(stub, [3, 4, 5, 6], 5, v6=0.1)
        stub.add_response("delete_function", {}, {"FunctionName": NAME, "Qualifier": "3"})
        delete_former_versions(account, [NAME], prompts.say)
        stub.assert_no_pending_responses()


def test_a_refusal_by_aws_is_reported_and_the_next_function_is_checked(account, prompts):
    with Stubber(account.client("lambda")) as stub:
        stub.add_client_error("list_versions_by_function", "AccessDeniedException")
        queue_versions(stub, [1, 2], 2)
        delete_former_versions(account, ["stepline-dev-act", NAME], prompts.say)
        stub.assert_no_pending_responses()
    (text,) = prompts.lines
    assert "stepline-dev-act were not deleted" in text


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
    assert "older versions" not in prompts.text
    programs.failing.clear()
    deploy_stage(order(smoke=False), context)
    assert (
        f"older versions of {NAME} were not deleted" in prompts.text
    )  # the fake account has no such function
