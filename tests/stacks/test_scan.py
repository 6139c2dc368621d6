"""The scan of uploads by GuardDuty, from the templates."""

import json

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match
from moto.events.models import EventPattern

from stepline_cdk.scan import SERVICE, add_scan
from stepline_cdk.stage import Stage

from .conftest import ROOT

PLAN = "AWS::GuardDuty::MalwareProtectionPlan"


def test_a_plan_scans_and_tags_quarantine_alone(bedrock):
    ((name, plan),) = bedrock.entries(PLAN).items()
    protected = plan["Properties"]["ProtectedResource"]["S3Bucket"]
    assert protected["ObjectPrefixes"] == ["quarantine/"]
    assert bedrock.roles.text("loop", protected["BucketName"]) == "<Artifacts>"
    assert plan["Properties"]["Actions"] == {"Tagging": {"Status": "ENABLED"}}
    assert bedrock.templates["loop"].find_resources(PLAN).keys() == {name}


@pytest.mark.parametrize(
    ("place", "value", "matches"),
    [
        ("objectKey", "quarantine/acme/support/c-1/up_1", True),
        ("objectKey", "att/acme/support/c-1/sent/0", False),
        ("bucketName", "another", False),
    ],
)
def test_the_end_of_a_scan_in_quarantine_is_what_the_judge_waits_for(bedrock, place, value, matches):
    """The event is the one of docs.aws.amazon.com/guardduty, "Monitoring S3 object scans with Amazon EventBridge"."""
    event = json.loads((ROOT / "tests/data/events/scan_finished.json").read_text())
    (rule,) = [rule for rule in bedrock.resources("AWS::Events::Rule").values() if "quarantine/" in str(rule)]
    pattern = json.loads(json.dumps(rule["EventPattern"]))
    pattern["detail"]["s3ObjectDetails"]["bucketName"] = ["artifacts"]
    event["detail"]["s3ObjectDetails"][place] = value
    assert EventPattern.load(json.dumps(pattern)).matches_event(event) is matches


def test_a_plan_is_made_after_the_rights_of_its_role(bedrock):
    (plan,) = bedrock.entries(PLAN).values()
    assert [one for one in plan["DependsOn"] if "Policy" in one]


def test_the_scanner_reads_and_tags_quarantine_and_writes_its_trial_object_only(bedrock):
    assert bedrock.roles.trusts["ScanRole"] == SERVICE
    trial = "<Artifacts>/malware-protection-resource-validation-object"
    for action in ("s3:GetObject", "s3:PutObjectTagging"):
        assert bedrock.roles.resources("ScanRole", action) == {"<Artifacts>/quarantine/*", trial}
    assert bedrock.roles.resources("ScanRole", "s3:PutObject") == {trial}
    assert {one.partition(":")[0] for one in bedrock.roles.actions("ScanRole")} == {"s3", "events"}


@pytest.mark.parametrize("name", ["dev", "local"])
def test_a_stage_without_guardduty_has_no_plan_and_no_role_of_it(request, name):
    stage = request.getfixturevalue(name)
    assert not stage.entries(PLAN)
    assert "ScanRole" not in stage.roles.trusts


@pytest.mark.parametrize(
    ("name", "av", "warned"), [("prod", "none", True), ("prod", "guardduty", False), ("dev", "none", False)]
)
def test_a_stage_that_keeps_data_and_scans_nothing_warns_at_synthesis(name, av, warned):
    stack = cdk.Stack(cdk.App(), "Scanned")
    add_scan(stack, Stage(name=name, av=av), s3.Bucket(stack, "Artifacts"))
    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("av=none: stage prod"))
    assert bool(found) is warned
