"""What an account asks of a stage: a boundary of its roles, tags, and a key of the account's own."""

import pytest

from stepline_cdk.choice.read import BadChoiceError
from stepline_cdk.stage import Stage
from tests.stacks.conftest import BILLING, Synthesis

BOUNDARY = "arn:aws:iam::111122223333:policy/builders"
ASKED = {
    "name": "prod",
    "permissions_boundary_arn": BOUNDARY,
    "tags": {"team": "shop", "cost center": "7/b"},
    "concurrency": 1000,
    "shift": "canary",
    "av": "guardduty",
    "memory": "s3_vectors",
    "event_source_principals": (BILLING,),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The resources of a stage with what an account asks for, and with every part."""
    synthesis = Synthesis(Stage(**ASKED), tmp_path_factory.mktemp("asked"))
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


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (
            {"permissions_boundary_arn": "builders"},
            "permissions_boundary_arn: got 'builders', takes the ARN of a policy",
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
