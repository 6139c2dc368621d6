"""What an account asks of a stage: a boundary of its roles, tags, and a key of the account's own."""

import json
import re

import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.task import EcsTasks
from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import InputError
from stepline_cdk.choice.read import BadChoiceError
from stepline_cdk.key import key_policy
from stepline_cdk.stage import Stage
from tests.stacks.conftest import BILLING, CONTEXT, PAGE, ROOT, Synthesis, cdk
from tests.stacks.test_agent import Shop
from tests.support.aws import create_table, moto

BOUNDARY = "arn:aws:iam::111122223333:policy/builders"
VIA = re.compile(r"\[StringEquals kms:ViaService: ([^]]+)\]")
KEY = "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
ASKED = {
    "name": "prod",
    "kms_key_arn": KEY,
    "permissions_boundary_arn": BOUNDARY,
    "tags": {"team": "shop", "cost center": "7/b"},
    "concurrency": 1000,
    "shift": "canary",
    "av": "guardduty",
    "memory": "s3_vectors",
    "event_source_principals": (BILLING,),
}


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory):
    """A stage with what an account asks for, and with every part."""
    return Synthesis(Stage(**ASKED), tmp_path_factory.mktemp("asked"))


@pytest.fixture(scope="module")
def asked(synthesis):
    """The resources of its stacks."""
    return [one for document in synthesis.documents().values() for one in document["Resources"].values()]


def of_kind(resources, kind):
    return [one["Properties"] for one in resources if one["Type"] == kind]


def test_each_role_of_each_stack_has_the_boundary(asked):
    roles = of_kind(asked, "AWS::IAM::Role")
    assert len(roles) > 20
    assert {str(one.get("PermissionsBoundary")) for one in roles} == {BOUNDARY}


def test_each_kind_of_data_of_each_stack_has_the_tags(asked):
    for kind in ("AWS::IAM::Role", "AWS::Lambda::Function", "AWS::S3::Bucket", "AWS::Logs::LogGroup"):
        for one in of_kind(asked, kind):
            assert {"Key": "team", "Value": "shop"} in one["Tags"]
            assert {"Key": "cost center", "Value": "7/b"} in one["Tags"]
    (table,) = of_kind(asked, "AWS::DynamoDB::GlobalTable")
    assert {"Key": "team", "Value": "shop"} in table["Replicas"][0]["Tags"]


def test_each_place_of_content_has_the_key(asked):
    (table,) = of_kind(asked, "AWS::DynamoDB::GlobalTable")
    assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
    assert [one["SSESpecification"] for one in table["Replicas"]] == [{"KMSMasterKeyId": KEY}]
    rules = [
        one["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        for one in of_kind(asked, "AWS::S3::Bucket")
    ]
    of_key = {"KMSMasterKeyID": KEY, "SSEAlgorithm": "aws:kms"}
    of_page = {"SSEAlgorithm": "AES256"}
    assert rules == [
        [{"ServerSideEncryptionByDefault": of_page}],
        [{"BucketKeyEnabled": True, "ServerSideEncryptionByDefault": of_key}],
    ]
    assert {one["KmsKeyId"] for one in of_kind(asked, "AWS::Logs::LogGroup")} == {KEY}
    assert {one["KmsMasterKeyId"] for one in of_kind(asked, "AWS::SQS::Queue")} == {KEY}
    (vectors,) = of_kind(asked, "AWS::S3Vectors::VectorBucket")
    assert vectors["EncryptionConfiguration"] == {"SseType": "aws:kms", "KmsKeyArn": KEY}
    (cluster,) = of_kind(asked, "AWS::ECS::Cluster")
    disks = {"FargateEphemeralStorageKmsKeyId": KEY}
    assert cluster["Configuration"] == {"ManagedStorageConfiguration": disks}
    (act,) = [
        one for one in of_kind(asked, "AWS::Lambda::Function") if one["Handler"] == "lambdas.act.handler"
    ]
    assert act["Environment"]["Variables"]["FARGATE_KMS_KEY_ARN"] == KEY


def uses_of_key(synthesis, role):
    """The actions on the key that a role may have done by services, each with those."""
    return {
        action: {one.partition(".")[0] for one in VIA.search(line)[1].split()}
        for line in synthesis.roles.lines(role)
        if "kms:" in line
        for action in line.partition(" →")[0].split()
    }


def test_a_role_uses_the_key_by_the_services_alone_whose_data_it_reads_and_writes(synthesis):
    assert {role: uses_of_key(synthesis, role) for role in ("AuthorizerRole", "OutputRole", "TaskRole")} == {
        "AuthorizerRole": {"kms:Decrypt": {"dynamodb"}},
        "OutputRole": {"kms:Decrypt": {"dynamodb", "s3"}},
        "TaskRole": {"kms:Decrypt": {"secretsmanager"}},
    }
    # It signs the posts of uploads and the links of files.
    assert uses_of_key(synthesis, "ApiRole") == {
        "kms:Decrypt": {"dynamodb", "s3", "s3vectors"},
        "kms:GenerateDataKey": {"s3", "s3vectors"},
    }
    assert uses_of_key(synthesis, "ActRole") == {
        "kms:Decrypt": {"dynamodb", "s3", "s3vectors", "secretsmanager"},
        "kms:GenerateDataKey": {"s3", "secretsmanager"},
    }
    assert uses_of_key(synthesis, "PreflightRole") == {
        "kms:Decrypt": {"dynamodb", "s3", "sqs"},
        "kms:GenerateDataKey": {"s3", "sqs"},
    }
    scan = {action: {"s3"} for action in ("kms:Decrypt", "kms:GenerateDataKey")}
    assert uses_of_key(synthesis, "ScanRole") == scan
    others = ("MachineRole", "ExecutionRole", "RetirementRole", "LoopShiftRole", "ImageBuildBuildRole")
    assert [uses_of_key(synthesis, role) for role in others] == [{}] * len(others)


def test_the_page_has_the_policy_that_an_imported_key_needs():
    stack = cdk.Stack(
        cdk.App(context=CONTEXT), env=cdk.Environment(account="111122223333", region="eu-central-1")
    )
    page = (ROOT / "docs/concepts/security.md").read_text().partition("## A key of yours")[2]
    written = json.loads(page.partition("```json")[2].partition("```")[0])
    needed = [one.to_statement_json() for one in key_policy(stack, Stage(**ASKED))]
    assert stack.resolve(needed) == written


def test_a_key_of_the_same_app_serves_an_agent_and_gets_its_policy(tmp_path):
    shop = Shop(tmp_path)
    key = kms.Key(shop.stack, "Data", enable_key_rotation=True)
    shop.add(kms_key=key, programs=True, memory="s3_vectors", av="guardduty", page=PAGE)
    assert shop.findings() == set()
    resources = shop.resources()
    (policy,) = [one["KeyPolicy"]["Statement"] for one in of_kind(resources.values(), "AWS::KMS::Key")]
    services = [one["Principal"]["Service"] for one in policy if "Service" in one["Principal"]]
    assert len(services) == 5
    (logs,) = {json.dumps(one["KmsKeyId"]) for one in of_kind(resources.values(), "AWS::Logs::LogGroup")}
    assert logs.startswith('{"Fn::GetAtt": ["Data')
    used = [
        statement
        for one in of_kind(resources.values(), "AWS::IAM::Policy")
        for statement in one["PolicyDocument"]["Statement"]
        if "kms:" in json.dumps(statement["Action"])
    ]
    assert len(used) > 20
    assert all("kms:ViaService" in one["Condition"]["StringEquals"] for one in used)


def test_a_key_that_is_imported_serves_an_agent(tmp_path):
    shop = Shop(tmp_path)
    agent = shop.add(kms_key=kms.Key.from_key_arn(shop.stack, "Data", KEY))
    service = iam.Role(shop.stack, "Service", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    agent.grant_send(service)
    (granted,) = [
        json.dumps(one)
        for key, one in shop.resources().items()
        if one["Type"] == "AWS::IAM::Policy" and key.startswith("Service")
    ]
    assert KEY in granted


def test_an_alias_in_the_place_of_a_key_is_refused(tmp_path):
    shop = Shop(tmp_path)
    alias = kms.Alias.from_alias_name(shop.stack, "Data", "alias/data")
    with pytest.raises(
        InputError, match=r"^Shop/Agent: kms_key: got an alias, takes a key of this app"
    ) as refused:
        shop.add(kms_key=alias)
    assert refused.value.reason == "bad_choice"


def test_a_handover_has_the_key():
    with moto():
        create_table("keyed")
        EcsTasks(Table("keyed"), "prod", MemoryClock(), key_arn=KEY).hand_over(
            "run", "{}", cluster="exec", deadline="2026-01-01T00:00:00.000Z"
        )
        (secret,) = connect("secretsmanager", read_timeout_s=10).list_secrets()["SecretList"]
    assert secret["KmsKeyId"] == KEY


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (
            {"permissions_boundary_arn": "builders"},
            "permissions_boundary_arn: got 'builders', takes the ARN of a policy",
        ),
        (
            {"kms_key_arn": "arn:aws:kms:eu-west-1:111122223333:alias/data"},
            "kms_key_arn: got 'arn:aws:kms:eu-west-1:111122223333:alias/data', takes the ARN of a key, not of an alias",
        ),
        (
            {"name": "local", "endpoint": "http://127.0.0.1:4566", "exec_image": "", "kms_key_arn": KEY},
            "kms_key_arn: got a key on stage local, takes nothing there: the emulator's data is temporary",
        ),
        ({"tags": "team=shop"}, "tags: got 'team=shop', takes an object, or its JSON"),
        ({"tags": {"team": 7}}, "tags: got 7, takes an object, or its JSON"),
        (
            {"tags": {"aws:team": "shop"}},
            "tags: got 'aws:team', takes names of letters, digits, spaces and .:/=+@_-, which do not begin with aws:",
        ),
        (
            {"tags": {"team": "shop & sons"}},
            "tags: got 'shop & sons', takes values of letters, digits, spaces and .:/=+@_-",
        ),
        ({"tags": {str(number): "" for number in range(51)}}, "tags: got 51, takes at most 50 tags"),
    ],
)
def test_a_choice_that_no_account_takes_is_refused_in_a_sentence(choices, said):
    with pytest.raises(BadChoiceError) as refused:
        Stage(**choices)
    assert str(refused.value) == said
