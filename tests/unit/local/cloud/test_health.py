"""The health of a deployed stage, and what its destruction leaves. CloudFormation is a stub, the rest moto."""

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from stepline.errors import DependencyError
from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.deployment import load_deployment
from stepline.local.cloud.destroy import DELETE_COMMANDS, destroy, render_deletion
from stepline.local.cloud.health import (
    STACKS,
    DeployedResource,
    Stack,
    check_alarms,
    check_functions,
    check_outputs,
    check_pool,
    check_scan,
    check_stacks,
    check_table,
    find_stacks,
    health,
    is_deployed,
    stack_name,
)
from tests.unit.local.cloud.recorded_programs import TEMPLATES, order, refused

AT = datetime(2026, 11, 22, tzinfo=UTC)
VECTORS = "arn:aws:s3vectors:eu-central-1:123456789012:bucket/memory"
ALIAS = "arn:aws:lambda:eu-central-1:123456789012:function:stepline-dev-socket:live"


def described(name, status="CREATE_COMPLETE", **outputs):
    return {
        "StackName": name,
        "CreationTime": AT,
        "StackStatus": status,
        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()],
    }


def listed(logical_id, physical_id, kind):
    return {
        "LogicalResourceId": logical_id,
        "PhysicalResourceId": physical_id,
        "ResourceType": kind,
        "LastUpdatedTimestamp": AT,
        "ResourceStatus": "CREATE_COMPLETE",
    }


def describe(stub, stage, by_name):
    """Answer for each stack of a stage in turn."""
    for word in STACKS:
        asked = {"StackName": stack_name(stage, word)}
        if found := by_name.get(asked["StackName"]):
            stub.add_response("describe_stacks", {"Stacks": [found]}, asked)
        else:
            stub.add_client_error(
                "describe_stacks", "ValidationError", "does not exist", expected_params=asked
            )


RESOURCES = {
    "stepline-dev-edge": [listed("Site", "the-site", "AWS::S3::Bucket")],
    "stepline-dev-state": [
        listed("Table", "the-table", "AWS::DynamoDB::GlobalTable"),
        listed("Bucket", "the-bucket", "AWS::S3::Bucket"),
        listed("Memory", VECTORS, "AWS::S3Vectors::VectorBucket"),
    ],
    "stepline-dev-loop": [listed("Role", "the-role", "AWS::IAM::Role")],
}


@pytest.fixture
def cloud(account):
    """Return a function that queues CloudFormation's answers for the stage's stacks, `rounds` of resources."""
    with ExitStack() as stack:

        def queue_stacks(*stacks, rounds=1, templates=False):
            stub = stack.enter_context(Stubber(account.client("cloudformation")))
            by_name = {found["StackName"]: found for found in stacks}
            describe(stub, "dev", by_name)
            names = [name for word in STACKS if (name := stack_name("dev", word)) in by_name]
            for name in names if templates else []:
                stub.add_response("get_template", {"TemplateBody": json.dumps(TEMPLATES[name])})
            for name in names * rounds:
                stub.add_response("list_stack_resources", {"StackResourceSummaries": RESOURCES.get(name, [])})

        yield queue_stacks


def test_only_the_stages_own_stacks_are_its(account, cloud):
    names = ("stepline-dev-loop", "stepline-dev-two-loop", "stepline-development-loop", "other")
    cloud(*(described(name) for name in names))
    assert [stack.name for stack in find_stacks(account, "dev")] == ["stepline-dev-loop"]


@pytest.mark.parametrize(("names", "found"), [(["stepline-dev-loop"], True), (["other"], False)])
def test_a_stage_with_stacks_counts_as_deployed(account, cloud, names, found):
    cloud(*(described(name) for name in names))
    assert is_deployed(account, "dev") is found


def test_a_stage_that_may_not_be_read_counts_as_not_deployed(account):
    with Stubber(account.client("cloudformation")) as stub:
        stub.add_client_error("describe_stacks", "AccessDenied")
        assert not is_deployed(account, "dev")


def test_a_missing_stage_has_one_line(account, cloud):
    cloud()
    (check,) = health(account, "dev")
    assert not check.ok
    assert "stepline deploy --stage dev" in check.remedy


def test_a_stage_without_its_resources_is_seen_through(account, cloud):
    outputs = {"TableName": "gone", "WebSocketUrl": "wss://x", "BucketName": "b"}
    cloud(described("stepline-dev-state", **outputs), described("stepline-dev-loop", "ROLLBACK_COMPLETE"))
    found = {check.name: check for check in health(account, "dev")}
    assert not found["stacks"].ok
    assert "MachineArn" in found["outputs"].detail
    assert not found["table"].ok
    assert "machine" not in found
    assert not found["functions"].ok


def test_a_living_table_and_machine_are_alive(account, cloud):
    account.client("dynamodb").create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    arn = account.client("stepfunctions").create_state_machine(
        name="m",
        definition='{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}',
        roleArn="arn:aws:iam::123456789012:role/r",
    )["stateMachineArn"]
    cloud(
        described(
            "stepline-dev-loop",
            WebSocketUrl="wss://x",
            HttpUrl="https://x",
            TableName="t",
            BucketName="b",
            MachineArn=arn,
        )
    )
    found = {check.name: check for check in health(account, "dev")}
    assert [found[name].ok for name in ("stacks", "outputs", "table", "machine")] == [True] * 4


def test_a_table_that_was_restored_by_hand_says_what_it_lacks(account):
    client = account.client("dynamodb")
    client.create_table(
        TableName="t",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    assert check_table(account, "t").detail == "t ACTIVE, without point-in-time recovery and expiry of rows"
    client.update_continuous_backups(
        TableName="t", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    assert (check_table(account, "t").mark, check_table(account, "t").detail) == (
        "warn",
        "t ACTIVE, without expiry of rows",
    )
    client.update_time_to_live(
        TableName="t", TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"}
    )
    assert (check_table(account, "t").mark, check_table(account, "t").detail) == ("ok", "t ACTIVE")


def test_a_failed_stack_names_the_command_that_says_why():
    check = check_stacks("dev", [Stack(name="stepline-dev-loop", status="UPDATE_ROLLBACK_COMPLETE")])
    assert not check.ok
    assert "describe-stack-events --stack-name stepline-dev-loop" in check.remedy


@pytest.mark.parametrize(
    ("status", "mark"),
    [
        ("UPDATE_COMPLETE", "ok"),
        ("UPDATE_IN_PROGRESS", "warn"),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "NO"),
        ("DELETE_FAILED", "NO"),
    ],
)
def test_a_deployment_that_is_under_way_is_waited_for(status, mark):
    stacks = [
        Stack(name="stepline-dev-state", status="CREATE_COMPLETE"),
        Stack(name="stepline-dev-loop", status=status),
    ]
    assert check_stacks("dev", stacks).mark == mark


def test_resources_that_may_not_be_listed_are_unknown_and_not_missing(account):
    with Stubber(account.client("cloudformation")) as stub:
        describe(stub, "dev", {"stepline-dev-loop": described("stepline-dev-loop")})
        stub.add_client_error("list_stack_resources", "AccessDenied")
        found = {check.name: check for check in health(account, "dev")}
    assert found["stacks"].mark == "unknown"
    assert "cloudformation:ListStackResources" in found["stacks"].remedy
    assert "functions" not in found


def test_missing_outputs_are_named():
    check = check_outputs("dev", {"WebSocketUrl": "wss://x", "TableName": "t", "BucketName": "b"})
    assert not check.ok
    assert check.detail == "missing: HttpUrl, MachineArn"


@pytest.mark.parametrize(
    ("state", "mark"),
    [
        ("Active", "ok"),
        ("Inactive", "ok"),
        ("Pending", "warn"),
        ("Failed", "NO"),
    ],
)
def test_functions_answer_under_their_alias(account, state, mark):
    with Stubber(account.client("lambda")) as stub:
        stub.add_response("get_function_configuration", {"State": state}, {"FunctionName": ALIAS})
        check = check_functions(account, [ALIAS])
    assert check.mark == mark


def test_a_stage_without_functions_is_not_alive(account):
    assert not check_functions(account, []).ok


@pytest.mark.parametrize(("users", "mark"), [(0, "warn"), (3, "ok")])
def test_a_pool_without_users_is_a_warning(account, users, mark):
    with Stubber(account.client("cognito-idp")) as stub:
        stub.add_response("describe_user_pool", {"UserPool": {"EstimatedNumberOfUsers": users}})
        assert check_pool(account, "pool").mark == mark


def test_alarms_that_ring_are_named(account):
    cloudwatch = account.client("cloudwatch")
    for name in ("stepline-dev-lost", "stepline-dev-slow", "another"):
        cloudwatch.put_metric_alarm(
            AlarmName=name,
            ComparisonOperator="GreaterThanThreshold",
            EvaluationPeriods=1,
            MetricName="m",
            Namespace="n",
            Period=60,
            Statistic="Sum",
            Threshold=1,
        )
    own = ["stepline-dev-lost", "stepline-dev-slow"]
    assert check_alarms(account, "dev", own).ok
    assert check_alarms(account, "dev", own).mark == "warn"
    for name in ("stepline-dev-lost", "another"):
        cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="x")
    check = check_alarms(account, "dev", own)
    assert not check.ok
    assert check.detail == "in alarm: stepline-dev-lost"
    assert check.remedy == "docs/how-to/runbook.md#lost"


@pytest.mark.parametrize(("topics", "mark"), [([], "warn"), (["arn:aws:sns:eu-central-1:1:calls"], "ok")])
def test_alarms_without_a_topic_are_a_warning(account, topics, mark):
    account.client("cloudwatch").put_metric_alarm(
        AlarmName="stepline-dev-lost",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        MetricName="m",
        Namespace="n",
        Period=60,
        Statistic="Sum",
        Threshold=1,
        AlarmActions=topics,
    )
    check = check_alarms(account, "dev", ["stepline-dev-lost"])
    assert check.mark == mark
    assert ("alarm_topic_arn" in check.remedy) is (mark == "warn")


JUDGE = {"FunctionName": "stepline-dev-preflight:live"}


@pytest.mark.parametrize(
    ("scanner", "protected", "mark"),
    [("none", True, "warn"), ("none", False, "ok"), ("clamd", True, "ok")],
)
def test_a_stage_that_keeps_its_data_and_scans_no_uploads_is_a_warning(account, scanner, protected, mark):
    table = {"Table": {"TableName": "the-table", "DeletionProtectionEnabled": protected}}
    with (
        Stubber(account.client("lambda")) as functions,
        Stubber(account.client("dynamodb")) as tables,
    ):
        variables = {"Environment": {"Variables": {"APP_AV_SCAN": scanner}}}
        functions.add_response("get_function_configuration", variables, JUDGE)
        tables.add_response("describe_table", table)
        check = check_scan(account, "dev", "the-table", [])
    assert check.mark == mark
    assert ("av=guardduty" in check.remedy) is (mark == "warn")


@pytest.mark.parametrize(
    ("plans", "answer", "mark"),
    [
        ([], None, "NO"),
        (["p"], {"Status": "ACTIVE"}, "ok"),
        (["p"], {"Status": "ERROR", "StatusReasons": [{"Code": "X", "Message": "no right"}]}, "NO"),
    ],
)
def test_a_stage_whose_uploads_wait_for_guardduty_needs_a_plan_that_scans(account, plans, answer, mark):
    with (
        Stubber(account.client("lambda")) as functions,
        Stubber(account.client("guardduty")) as guardduty,
    ):
        variables = {"Environment": {"Variables": {"APP_AV_SCAN": "guardduty"}}}
        functions.add_response("get_function_configuration", variables, JUDGE)
        if answer:
            guardduty.add_response("get_malware_protection_plan", answer, {"MalwareProtectionPlanId": "p"})
        check = check_scan(account, "dev", "t", plans)
    assert check.mark == mark
    assert (check.detail == "the plan p is ERROR: X: no right") is bool(answer and mark == "NO")


@pytest.fixture
def deployed(context, bootstrapped, account, cloud):
    """Return a context with a deployed stage, whose CloudFormation answers once."""
    deploy_stage(order(smoke=False), context)
    bucket = account.client("s3")
    for name in ("the-bucket", "the-site"):
        bucket.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    bucket.put_object(Bucket="the-site", Key="index.html", Body=b"1")
    bucket.put_bucket_versioning(Bucket="the-bucket", VersioningConfiguration={"Status": "Enabled"})
    for text in (b"1", b"2"):
        bucket.put_object(Bucket="the-bucket", Key="out/x", Body=text)
    bucket.delete_object(Bucket="the-bucket", Key="out/x")
    vectors = account.client("s3vectors")
    vectors.create_vector_bucket(vectorBucketName="memory")
    for name in ("memory-one", "memory-two"):
        vectors.create_index(
            vectorBucketArn=VECTORS,
            indexName=name,
            dataType="float32",
            dimension=2,
            distanceMetric="cosine",
        )
    names = ("stepline-dev-edge", "stepline-dev-state", "stepline-dev-loop")
    cloud(*map(described, names), rounds=2, templates=True)
    # Every client of a fake account is the one whose CloudFormation is a stub.
    return replace(context, open_account=lambda _profile, _region: account)


def test_writers_are_deleted_before_buckets_and_kept_resources_are_listed(
    deployed, programs, account, prompts
):
    commands = destroy(order(), deployed, lambda name: name == "dev")
    first, second = [command for command in programs.commands if command[1] == "destroy"]
    assert first[2:4] == ["stepline-dev-loop", "--exclusively"]
    assert second[2:5] == ["stepline-dev-state", "stepline-dev-edge", "--exclusively"]
    assert commands == [
        "aws dynamodb update-table --table-name the-table --no-deletion-protection-enabled --region eu-central-1",
        "aws dynamodb delete-table --table-name the-table --region eu-central-1",
    ]
    assert "kept: the-table" in prompts.text
    assert "will be deleted with all conversations and files in it: the-bucket" in prompts.text
    assert "Versions" not in account.client("s3").list_object_versions(Bucket="the-bucket")
    assert f"deleted with all conversations and files in it: {VECTORS}" in prompts.text
    assert "deleted with the chat page in it: the-site" in prompts.text
    assert "Contents" not in account.client("s3").list_objects_v2(Bucket="the-site")
    assert account.client("s3vectors").list_indexes(vectorBucketArn=VECTORS)["indexes"] == []
    assert load_deployment(deployed.home, "dev") is None


def test_a_deployed_stage_is_destroyed_without_another_synthesis(deployed, programs):
    destroy(order(), deployed, lambda _name: True)
    assert programs.verbs.count("synth") == 1


def test_a_name_that_is_not_confirmed_destroys_nothing(deployed, programs, account):
    assert refused(destroy, order(), deployed, lambda _name: False).reason == "cloud_deploy"
    assert "destroy" not in programs.verbs
    assert account.client("s3").list_object_versions(Bucket="the-bucket")["Versions"]
    assert load_deployment(deployed.home, "dev") is not None


def test_a_teardown_that_fails_is_remembered_and_keeps_the_data(deployed, programs, account):
    programs.failing.add("destroy")
    error = refused(destroy, order(), deployed, lambda _name: True)
    assert "stepline destroy --stage dev" in str(error)
    assert account.client("s3").list_object_versions(Bucket="the-bucket")["Versions"]
    assert load_deployment(deployed.home, "dev") is not None


def test_a_stage_without_stacks_cannot_be_destroyed(context, account, cloud):
    cloud()
    here = replace(context, open_account=lambda _profile, _region: account)
    with pytest.raises(DependencyError, match="nothing to destroy"):
        destroy(order(), here, lambda _name: True)


@pytest.mark.parametrize("kind", sorted(DELETE_COMMANDS))
def test_every_command_names_what_it_deletes(kind):
    lines = render_deletion(DeployedResource(stack="s", logical_id="l", physical_id="the-id", type=kind), "r")
    assert all("the-id" in command and command.endswith("--region r") for command in lines)


def test_a_resource_without_a_known_delete_command_is_listed():
    (line,) = render_deletion(
        DeployedResource(stack="s", logical_id="l", physical_id="i", type="AWS::X::Y"), "r"
    )
    assert line == "# no known command deletes AWS::X::Y i"
