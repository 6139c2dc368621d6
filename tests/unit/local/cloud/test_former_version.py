"""A deployment records the versions that served before it, a rollback returns to them, and the stack deletes them after a day."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.former_versions import find_functions, recorded_versions, versions_named
from stepline.local.cloud.health import ABSENT, STACKS, stack_name
from stepline.local.cloud.rollback import roll_stage_back
from tests.unit.local.cloud import recorded_programs
from tests.unit.local.cloud.recorded_programs import order, refused, write_assembly

DECIDE, ACT = NAMES = ("stepline-dev-decide", "stepline-dev-act")


def alias_of(name):
    function, key = f"stepline-dev-{name}", name.title()
    return {
        key: {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": function}},
        f"{key}Live": {
            "Type": "AWS::Lambda::Alias",
            "Properties": {"FunctionName": {"Ref": key}, "Name": "live"},
        },
    }


HELPER = {"Type": "AWS::Lambda::Function", "Properties": {}}
LOOP = {"Resources": {**alias_of("decide"), **alias_of("act"), "Helper": HELPER}}
TEMPLATES = {**recorded_programs.TEMPLATES, "stepline-dev-loop": LOOP}


@pytest.fixture
def with_functions(monkeypatch):
    monkeypatch.setattr(recorded_programs, "TEMPLATES", TEMPLATES)


@pytest.fixture
def functions(account):
    """Two functions of moto's, at their first version."""
    iam = account.client("iam")
    trust = '{"Version": "2012-10-17", "Statement": []}'
    role = iam.create_role(RoleName="role", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    client = account.client("lambda")
    for name in NAMES:
        client.create_function(
            FunctionName=name,
            Runtime="python3.12",
            Handler="index.handler",
            Role=role,
            Code={"ZipFile": code(1)},
        )
        client.publish_version(FunctionName=name)
        client.create_alias(FunctionName=name, Name="live", FunctionVersion="1")
    return client


def code(number):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("index.py", f"number = {number}")
    return archive.getvalue()


def publish(client, name, number, *, live=True):
    """Publish the next version of a function, and let it serve, as a deployment does."""
    client.update_function_code(FunctionName=name, ZipFile=code(number))
    version = client.publish_version(FunctionName=name)["Version"]
    if live:
        client.update_alias(FunctionName=name, Name="live", FunctionVersion=version)


def deploy(account, prompts, *names, number):
    with recorded_versions(account, NAMES, prompts.say):
        for name in names:
            publish(account.client("lambda"), name, number)


def served(client):
    return versions_named(client, NAMES, "live")


def previous(client):
    return versions_named(client, NAMES, "previous")


def test_the_functions_with_an_alias_are_those_that_have_versions(tmp_path, with_functions):
    write_assembly(tmp_path / "cdk.out")
    assert sorted(find_functions(tmp_path / "cdk.out")) == sorted(NAMES)


def test_a_first_deployment_has_no_version_before(account, prompts, aws):
    with recorded_versions(account, NAMES, prompts.say):
        pass
    assert prompts.lines == []


def test_the_version_that_served_is_recorded_and_not_the_one_with_the_number_before(
    account, functions, prompts
):
    deploy(account, prompts, *NAMES, number=2)
    assert previous(functions) == {DECIDE: "1", ACT: "1"}
    publish(functions, DECIDE, 3, live=False)  # of a deployment that failed
    deploy(account, prompts, DECIDE, number=4)
    assert served(functions) == {DECIDE: "4", ACT: "2"}
    assert previous(functions) == {DECIDE: "2", ACT: "2"}


def test_a_deployment_that_changes_no_function_keeps_the_record(account, functions, prompts):
    deploy(account, prompts, *NAMES, number=2)
    deploy(account, prompts, number=3)
    assert previous(functions) == {DECIDE: "1", ACT: "1"}


def test_a_deployment_that_fails_half_way_records_what_served(account, functions, prompts):
    def fail_half_way():
        publish(functions, DECIDE, 2)
        raise RuntimeError

    with pytest.raises(RuntimeError), recorded_versions(account, NAMES, prompts.say):
        fail_half_way()
    assert (served(functions)[DECIDE], previous(functions)) == ("2", {DECIDE: "1", ACT: "1"})


def test_a_refusal_by_aws_is_reported_and_stops_no_deployment(account, prompts):
    with Stubber(account.client("lambda")) as stub:
        stub.add_client_error("get_alias", "AccessDeniedException")
        with recorded_versions(account, NAMES, prompts.say):
            pass
    (text,) = prompts.lines
    assert "`stepline rollback` cannot return to them" in text


@pytest.mark.usefixtures("bootstrapped", "with_functions")
def test_a_deployment_records_its_versions(context, programs, functions, prompts):
    call = programs.__call__

    def deploying(command, environment, **kwargs):
        if programs.verb(command) == "deploy":
            publish(functions, DECIDE, 2)
        return call(command, environment, **kwargs)

    deploy_stage(order(smoke=False), replace(context, run=deploying))
    assert previous(functions) == {DECIDE: "1", ACT: "1"}


@pytest.fixture
def stacks(account, functions):
    """The stack of the functions, as CloudFormation reports it."""
    with Stubber(account.client("cloudformation")) as stub:

        def report():
            stack = {
                "StackName": "stepline-dev-loop",
                "StackStatus": "UPDATE_COMPLETE",
                "CreationTime": datetime.now(UTC),
            }
            for word in STACKS:
                if stack_name("dev", word) == stack["StackName"]:
                    stub.add_response("describe_stacks", {"Stacks": [stack]})
                else:
                    stub.add_client_error("describe_stacks", service_error_code=ABSENT)
            rows = [
                {
                    "LogicalResourceId": f"Alias{place}",
                    "PhysicalResourceId": f"arn:aws:lambda:eu-central-1:123456789012:function:{name}:live",
                    "ResourceType": "AWS::Lambda::Alias",
                    "LastUpdatedTimestamp": datetime.now(UTC),
                    "ResourceStatus": "UPDATE_COMPLETE",
                }
                for place, name in enumerate(NAMES)
            ]
            stub.add_response("list_stack_resources", {"StackResourceSummaries": rows})

        yield report


@pytest.fixture
def desk(context, account):
    return replace(context, open_account=lambda _profile, _region: account)


def test_a_rollback_serves_what_served_before_and_may_be_repeated(desk, account, functions, prompts, stacks):
    deploy(account, prompts, *NAMES, number=2)
    publish(functions, DECIDE, 3, live=False)
    deploy(account, prompts, DECIDE, number=4)
    stacks()
    assert roll_stage_back(order(), desk) == {DECIDE: "2"}
    assert served(functions) == {DECIDE: "2", ACT: "2"}
    stacks()
    error = refused(roll_stage_back, order(), desk)
    assert (error.reason, "serve already" in str(error)) == ("cloud_deploy", True)


def test_a_rollback_without_a_record_names_the_other_way(desk, stacks):
    stacks()
    assert "deploy an earlier release" in str(refused(roll_stage_back, order(), desk))


def test_a_rollback_that_is_not_confirmed_changes_nothing(desk, account, functions, prompts, stacks):
    deploy(account, prompts, *NAMES, number=2)
    prompts.answers = [False]
    stacks()
    refused(roll_stage_back, order(), desk)
    assert served(functions) == {DECIDE: "2", ACT: "2"}


def test_a_rollback_ends_a_release_by_parts(desk, account, functions, prompts, stacks):
    deploy(account, prompts, *NAMES, number=2)
    publish(functions, DECIDE, 3, live=False)
    functions.update_alias(
        FunctionName=DECIDE, Name="live", RoutingConfig={"AdditionalVersionWeights": {"3": 0.1}}
    )
    stacks()
    roll_stage_back(order(), desk)
    live = functions.get_alias(FunctionName=DECIDE, Name="live")
    assert live.get("RoutingConfig", {}).get("AdditionalVersionWeights", {}) == {}
