"""AWS's rules over every kind of deployment: each finding has its reason, and each reason its finding."""

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

from stepline_cdk.acknowledgement import ACKNOWLEDGED
from stepline_cdk.review import place_of
from stepline_cdk.stage import Stage

from .conftest import BILLING
from .reviewed_stage import reviewed

STAGES = {
    "an issuer elsewhere, no programs": Stage(
        name="prod",
        dashboard=True,
        oidc_issuer="https://login.example",
        exec_image="none",
        concurrency=1000,
        stream_readers=20,
        vpc="vpc-0a1b2c3d",
        vpc_subnets=("subnet-0a1b2c3d",),
        vpc_security_groups=("sg-0a1b2c3d",),
    ),
    "users of its own, Bedrock, memory in S3 Vectors, a built image": Stage(
        name="dev",
        tracing="on",
        model_provider="bedrock",
        memory="s3_vectors",
        allowed_origins=("https://chat.example",),
        exec_mode="fargate",
        exec_image="codebuild",
        av="guardduty",
    ),
    "programs in tasks from a given image, a page with a domain": Stage(
        name="a-b-c",
        page_domain="chat.example.com",
        page_certificate_arn="arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d",
        alarms=True,
        exec_mode="fargate",
        exec_image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1",
        event_source_principals=(BILLING,),
        table_name="stepline-a-b-c-20261126120000",
        shift="linear",
        vpc="vpc-0a1b2c3d",
        vpc_subnets=("subnet-0a1b2c3d", "subnet-1a1b2c3d"),
    ),
}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    return {name: reviewed(tmp_path_factory.mktemp("review"), stage) for name, stage in STAGES.items()}


@pytest.mark.parametrize("name", STAGES)
def test_every_finding_is_acknowledged(reviews, name):
    review, refused = reviews[name]
    assert review.open == []
    assert not refused


def test_every_acknowledgement_still_has_its_finding(reviews):
    used = set().union(*(review.used for review, _ in reviews.values()))
    assert {row for item in ACKNOWLEDGED for row in item.rows()} - used == set()


def test_no_finding_is_acknowledged_twice():
    rows = [row for item in ACKNOWLEDGED for row in item.rows()]
    assert len(rows) == len(set(rows))


def test_every_reason_is_unique():
    reasons = [item.reason for item in ACKNOWLEDGED]
    assert len(reasons) == len(set(reasons))
    assert min(map(len, reasons)) > 40


def test_an_unacknowledged_finding_stops_the_synthesis(tmp_path):
    review, refused = reviewed(
        tmp_path, Stage(name="dev"), spoil=lambda deployment: s3.Bucket(deployment.loop.scope, "Another")
    )
    assert refused
    assert {(finding.id, finding.place) for finding in review.open} == {
        ("S1", "loop/Another"),
        ("S10", "loop/Another"),
    }


def test_an_acknowledgement_applies_to_its_construct_only(tmp_path):
    def let_more(deployment):
        deployment.loop.functions["close"].role.add_to_policy(
            cdk.aws_iam.PolicyStatement(
                actions=["s3:GetObject"], resources=[deployment.state.bucket.arn_for_objects("exec/*")]
            )
        )

    review, refused = reviewed(tmp_path, Stage(name="dev"), spoil=let_more)
    assert refused
    assert [finding.place for finding in review.open] == ["loop/Close/Role/DefaultPolicy"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("stepline-prod-loop/Act/Role/Resource", "loop/Act/Role"),
        ("stepline-a-b-c-state/Artifacts/Resource", "state/Artifacts"),
        ("stepline-dev-exec/Task", "exec/Task"),
    ],
)
def test_the_path_of_a_finding_is_the_same_in_every_stage(path, place):
    assert place_of(path) == place
