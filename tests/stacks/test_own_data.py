"""An agent whose table and bucket are its owner's: what it makes, what it may do, and what it refuses."""

import json

import pytest
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from stepline.errors import InputError
from stepline_cdk.owned import EXPIRES, INDEXES, LANE_INDEX, OPEN
from tests.stacks.conftest import ROOT, cdk
from tests.stacks.role import listed
from tests.stacks.test_agent import POLICY, Shop, of_kind, variables_of

TABLE, BUCKET = "AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket"


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def text(name):
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def index(name, *keys, kept=()):
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=name,
        partition_key=text(keys[0]),
        sort_key=text(keys[1]),
        projection_type=dynamodb.ProjectionType.INCLUDE if kept else dynamodb.ProjectionType.ALL,
        non_key_attributes=list(kept) or None,
    )


def whole():
    """The indexes that an agent needs."""
    return [index(name, *keys, kept=(OPEN,) if name == LANE_INDEX else ()) for name, keys in INDEXES.items()]


def table_of(scope, **others):
    given = {
        "partition_key": text("pk"),
        "sort_key": text("sk"),
        "time_to_live_attribute": EXPIRES,
        "global_secondary_indexes": whole(),
    }
    return dynamodb.TableV2(scope, "Rows", **given | others)


def bucket_of(scope, **others):
    """A bucket whose events are on by the resource's own property, without the function of the CDK."""
    bucket = s3.Bucket(scope, "Files", **{"versioned": True, "enforce_ssl": True, **others})
    bucket.node.default_child.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
    )
    return bucket


def test_a_table_and_a_bucket_of_the_owner_are_used_and_no_others_are_made(shop):
    table, bucket = table_of(shop.stack), bucket_of(shop.stack)
    agent = shop.add(table=table, bucket=bucket, programs=True, av="guardduty")
    assert (agent.table, agent.bucket) == (table, bucket)
    resources = shop.resources()
    assert [len(of_kind(resources, kind)) for kind in (TABLE, BUCKET)] == [1, 1]
    variables = variables_of(resources, "act")
    assert variables["STEPLINE_TABLE"] == {"Ref": next(iter(of_kind(resources, TABLE)))}
    assert variables["STEPLINE_BUCKET"] == {"Ref": next(iter(of_kind(resources, BUCKET)))}
    rights = json.dumps(of_kind(resources, POLICY))
    assert "Rows" in rights
    assert "Files" in rights
    assert {place for _, place in shop.findings() if place.startswith("Shop/Agent")} == set()


def test_data_of_another_stack_as_the_page_makes_it_passes_the_rules_of_aws(shop):
    page = (ROOT / "docs/how-to/own-app.md").read_text()
    (code,) = [one for one in page.split("```") if one.startswith("python\n# data_stack.py")]
    names = {}
    exec(code.removeprefix("python"), names)
    data = names["DataStack"](shop.app, "Data")
    shop.add(table=data.table, bucket=data.bucket, programs=True)
    shop.app.synth()
    assert {place for _, place in shop.findings() if place.startswith("Shop/")} == set()
    assert "Data:ExportsOutput" in json.dumps(of_kind(shop.resources(), POLICY))


def test_an_imported_table_and_bucket_are_taken_as_they_are(shop):
    table = dynamodb.TableV2.from_table_name(shop.stack, "Rows", "rows")
    bucket = s3.Bucket.from_bucket_name(shop.stack, "Files", "company-files")
    shop.add(table=table, bucket=bucket)
    assert shop.findings() == set()
    resources = shop.resources()
    assert [of_kind(resources, kind) for kind in (TABLE, BUCKET)] == [{}, {}]
    assert variables_of(resources, "decide")["STEPLINE_TABLE"] == "rows"
    assert variables_of(resources, "decide")["STEPLINE_BUCKET"] == "company-files"


def test_a_table_of_the_older_construct_is_taken_too(shop):
    table = dynamodb.Table(
        shop.stack,
        "Rows",
        partition_key=text("pk"),
        sort_key=text("sk"),
        time_to_live_attribute=EXPIRES,
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
    )
    for name, keys in INDEXES.items():
        table.add_global_secondary_index(index_name=name, partition_key=text(keys[0]), sort_key=text(keys[1]))
    shop.add(table=table)
    assert of_kind(shop.resources(), TABLE) == {}


def test_a_bucket_whose_events_are_on_by_the_cdks_own_property_is_taken(shop):
    bucket = s3.Bucket(shop.stack, "Files", versioned=True, event_bridge_enabled=True)
    shop.add(bucket=bucket)
    assert len(of_kind(shop.resources(), BUCKET)) == 1


def test_each_role_uses_the_keys_of_the_owners_table_and_bucket_by_their_own_service(shop):
    rows, files, data = (kms.Key(shop.stack, name) for name in ("OfRows", "OfFiles", "OfData"))
    table = dynamodb.Table.from_table_attributes(
        shop.stack, "Rows", table_name="rows", encryption_key=rows, global_indexes=list(INDEXES)
    )
    bucket = bucket_of(shop.stack, encryption_key=files)
    shop.add(table=table, bucket=bucket, kms_key=data)
    used = {
        (statement["Resource"]["Fn::GetAtt"][0][:6], service)
        for policy in of_kind(shop.resources(), POLICY).values()
        for statement in policy["PolicyDocument"]["Statement"]
        if "kms:" in json.dumps(statement["Action"])
        for service in services_of(statement)
    }
    assert used == {
        ("OfRows", "dynamodb"),
        ("OfFile", "s3"),
        ("OfData", "secretsmanager"),
        ("OfData", "sqs"),
    }


def services_of(statement):
    """The services by which a role may use a key."""
    via = statement["Condition"]["StringEquals"]["kms:ViaService"]
    return [listed(one["Fn::Join"][1])[0].rstrip(".") for one in listed(via)]


@pytest.mark.parametrize("keep", [True, False])
def test_data_remains_or_goes_as_the_owner_says(shop, keep):
    policy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if keep else cdk.RemovalPolicy.RETAIN
    shop.add(keep_data=keep, removal_policy=policy)
    kinds = (TABLE, BUCKET, "AWS::Cognito::UserPool")
    found = {one["DeletionPolicy"] for one in shop.resources().values() if one["Type"] in kinds}
    assert found == {"RetainExceptOnCreate" if keep else "Retain"}
    (table,) = of_kind(shop.resources(), TABLE).values()
    assert table["Replicas"][0]["DeletionProtectionEnabled"] is keep


def without(name):
    return [one for one in whole() if one.index_name != name]


WRONG_TABLES = {
    "keys": (
        {"partition_key": text("id")},
        "got the keys id, sk, takes pk and sk, both texts",
    ),
    "a number": (
        {"sort_key": dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.NUMBER)},
        "got the keys pk, sk, takes pk and sk, both texts",
    ),
    "no index": (
        {"global_secondary_indexes": without("GSI2")},
        "got no index GSI2, takes one with the keys gsi2pk and gsi2sk",
    ),
    "keys of an index": (
        {"global_secondary_indexes": [*without("GSI1"), index("GSI1", "gsi1pk", "at")]},
        "got index GSI1 with the keys gsi1pk, at, takes gsi1pk and gsi1sk, both texts",
    ),
    "a part of an index": (
        {"global_secondary_indexes": [*without("GSI1"), index("GSI1", *INDEXES["GSI1"], kept=("title",))]},
        "got index GSI1 without some attributes, takes one with all attributes",
    ),
    "another part": (
        {"global_secondary_indexes": [*without("GSI3"), index("GSI3", *INDEXES["GSI3"], kept=("at",))]},
        "got index GSI3 without lane_open, takes one with all attributes",
    ),
    "no expiry": (
        {"time_to_live_attribute": None},
        "got no expiry of rows by expires_at, takes it as the attribute of the time to live",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_TABLES)
def test_a_table_of_the_app_that_no_agent_can_work_with_is_refused(shop, wrong):
    others, said = WRONG_TABLES[wrong]
    with pytest.raises(InputError) as refused:
        shop.add(table=table_of(shop.stack, **others))
    assert (str(refused.value), refused.value.reason) == (f"Shop/Agent: table: {said}", "bad_choice")


@pytest.mark.parametrize(
    ("props", "said"),
    [
        ({"event_bridge_enabled": True}, "got one without versions, takes versioned=True"),
        ({"versioned": True}, "got one without events on EventBridge, takes event_bridge_enabled=True"),
    ],
)
def test_a_bucket_of_the_app_that_no_agent_can_work_with_is_refused(shop, props, said):
    with pytest.raises(InputError) as refused:
        shop.add(bucket=s3.Bucket(shop.stack, "Files", **props))
    assert (str(refused.value), refused.value.reason) == (f"Shop/Agent: bucket: {said}", "bad_choice")


@pytest.mark.parametrize(
    ("props", "said"),
    [
        (
            {"keep_data": True, "removal_policy": cdk.RemovalPolicy.DESTROY},
            "removal_policy and keep_data: got DESTROY and True, takes one of them",
        ),
        (
            {"removal_policy": cdk.RemovalPolicy.SNAPSHOT},
            "removal_policy: got SNAPSHOT, takes RETAIN or DESTROY: a table has no snapshot",
        ),
    ],
)
def test_a_removal_that_cannot_be_is_refused(shop, props, said):
    with pytest.raises(InputError) as refused:
        shop.add(**props)
    assert (str(refused.value), refused.value.reason) == (f"Shop/Agent: {said}", "bad_choice")


def test_a_table_and_the_name_of_another_are_refused(shop):
    with pytest.raises(InputError, match=r"^Shop/Agent: table and table_name: got both, takes one of them"):
        shop.add(table=table_of(shop.stack), table_name="restored")
