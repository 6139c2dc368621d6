import json

import boto3
import pytest
from botocore.stub import Stubber

from stepline.errors import DependencyError
from stepline.local.stage.cdk import (
    SETTLED_STATES,
    drop_stale,
    plan_stale,
    read_origins,
    render_choices,
)
from stepline.local.stage.own_app import AssembledStack, read_assembly

TOPIC = {"Type": "AWS::SNS::Topic"}
CORS = {"AllowOrigins": ["https://chat.example"], "AllowMethods": ["POST"], "MaxAge": 600}


def stack(name, made_at):
    return {"StackName": name, "CreationTime": made_at}


def test_stacks_that_the_app_no_longer_has_go_newest_first_and_no_others_do():
    found = [
        stack("stepline-local-state", 1),
        stack("stepline-local-base", 2),
        stack("stepline-local-runtime", 3),
        stack("stepline-prod-runtime", 4),
        stack("CDKToolkit", 0),
    ]
    wanted = {"stepline-local-state", "stepline-local-loop"}
    assert plan_stale(found, wanted) == ["stepline-local-runtime", "stepline-local-base"]
    assert plan_stale([*found, stack("Shop", 4)], wanted, "Shop")[0] == "Shop"


@pytest.fixture
def assembly(tmp_path):
    """One stack, `stepline-local-a`, with a topic."""
    (tmp_path / "a.json").write_text(json.dumps({"Resources": {"Topic": TOPIC}}))
    artifacts = {
        "assets": {"type": "cdk:asset-manifest"},
        "a": {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": "a.json", "stackName": "stepline-local-a"},
        },
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return tmp_path


def test_an_assembly_says_which_stacks_the_app_has(assembly):
    template = {"Resources": {"Topic": TOPIC}}
    assert list(read_assembly(assembly)) == [
        AssembledStack(path="a", name="stepline-local-a", template=template)
    ]


@pytest.fixture
def formation():
    """A CloudFormation client with one stack that the app no longer has, and its stub."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    made = boto3.client("cloudformation", region_name="us-east-1", **keys)
    stale = {"StackName": "stepline-local-exec", "CreationTime": 1, "StackStatus": "CREATE_COMPLETE"}
    with Stubber(made) as stub:
        stub.add_response(
            "list_stacks", {"StackSummaries": [stale]}, {"StackStatusFilter": list(SETTLED_STATES)}
        )
        yield made, stub
        stub.assert_no_pending_responses()


def refuse_deletion(stub, message):
    stub.add_client_error(
        "delete_stack", "ValidationError", message, expected_params={"StackName": "stepline-local-exec"}
    )


def test_a_stack_whose_exports_are_imported_is_kept_for_now(formation, assembly):
    client, stub = formation
    refuse_deletion(stub, "Export of-exec is imported by stack stepline-local-loop")
    assert drop_stale(client, assembly) == []


def test_a_stack_that_cannot_be_deleted_for_another_reason_is_an_error(formation, assembly):
    client, stub = formation
    refuse_deletion(stub, "the stack is being updated")
    with pytest.raises(client.exceptions.ClientError, match="being updated"):
        drop_stale(client, assembly)


def test_an_unused_stack_is_deleted_before_the_return(formation, assembly):
    client, stub = formation
    stub.add_response("delete_stack", {}, {"StackName": "stepline-local-exec"})
    gone = {"StackName": "exec", "CreationTime": 1, "StackStatus": "DELETE_COMPLETE"}
    stub.add_response("describe_stacks", {"Stacks": [gone]}, {"StackName": "stepline-local-exec"})
    assert drop_stale(client, assembly) == ["stepline-local-exec"]


def test_an_assembly_without_stacks_is_no_reason_to_delete_all(tmp_path):
    with pytest.raises(DependencyError, match="no stack"):
        list(read_assembly(tmp_path))


def test_an_api_answers_the_origins_that_its_template_says():
    api = {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "doors", "CorsConfiguration": CORS}}
    closed = {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "others"}}
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"CorsConfiguration": {"CorsRules": []}}}
    template = {"Resources": {"A": api, "B": closed, "C": TOPIC, "D": bucket}}
    assert read_origins(template) == {"doors": CORS}


def test_a_choice_of_several_lines_reaches_the_app_whole():
    providers = {"own": {"base_url": "http://127.0.0.1:11434/v1"}}
    flag, choice = render_choices({"model_providers": json.dumps(providers, indent=2)})
    name, _, value = choice.partition("=")
    assert (flag, name, json.loads(value)) == ("--context", "model_providers", providers)
    assert "\n" not in value
