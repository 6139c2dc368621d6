"""Templates of many kinds of stages: what other tools object to in them, and how far each is from the limits of AWS."""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from stepline_cdk.stage import Stage

from .conftest import BILLING, ROOT, TOPIC
from .reviewed_stage import reviewed

SECRET = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:{}-AbCdEf"
MODEL = {"model_secret_arn": SECRET.format("model")}
OWN_ISSUER = {"oidc_issuer": "https://login.example", "oidc_audience": "agents", "oidc_client_id": "page"}
OWN_NETWORK = {
    "exec_vpc": "vpc-0a1b2c3d",
    "exec_subnets": "subnet-0a1b2c3d,subnet-1a1b2c3d",
    "exec_security_groups": "sg-0a1b2c3d",
}
OPTION_SETS = {
    "dev": {"name": "dev"},
    "dev, no programs": {"name": "dev", "exec_image": "none"},
    "dev, Bedrock, memory in S3 Vectors": {
        "name": "dev",
        "model_provider": "bedrock",
        "memory": "s3_vectors",
    },
    "dev, its own issuer, pages elsewhere": {
        "name": "dev",
        **OWN_ISSUER,
        "allowed_origins": "https://chat.example,https://www.example",
    },
    "dev, traces to a server, a scanner": {
        "name": "dev",
        "tracing": "text",
        "tracing_endpoint": "https://otlp.example",
        "tracing_secret_arn": SECRET.format("traces"),
        "av": "clamd",
        "clamav_host": "scan.example",
    },
    "prod": {"name": "prod", **MODEL, "concurrency": "1000"},
    "prod, a quota of ten, no snapshots": {
        "name": "prod",
        **MODEL,
        "concurrency": "10",
        "snap_start": "false",
    },
    "prod, everything": {
        "name": "prod",
        **MODEL,
        "concurrency": "3000",
        "memory": "s3_vectors",
        "tracing": "on",
        "dashboard": "true",
        "alarm_topic_arn": TOPIC,
        "socket_access_log": "true",
        "shift": "canary",
        "av": "guardduty",
        "search_provider": "brave",
        "search_secret_arn": SECRET.format("search"),
        "redis_secret_arn": SECRET.format("redis"),
        "event_source_principals": BILLING,
        "model_roles": json.dumps({"solver": "claude-opus-4-8", "summary": "claude-haiku-4-5"}),
        "limits": json.dumps({"user": {"usd_day": 5}, "tenant": {"usd_day": 100}}),
        "workspace": "git",
        "multi_action": "read_write_search",
        "federation_issuer": "https://company.example.com",
        "federation_client_id": "stepline",
        "federation_secret_arn": SECRET.format("federation"),
        "federation_tenant_claim": "org",
        "federation_project_claim": "team",
        "vpc": "vpc-0a1b2c3d",
        "vpc_subnets": "subnet-0a1b2c3d,subnet-1a1b2c3d,subnet-2a1b2c3d",
    },
    "prod, its own issuer, domains": {
        "name": "prod",
        **MODEL,
        **OWN_ISSUER,
        "page_domain": "chat.example.com",
        "page_certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/0a1b2c3d",
        "allowed_addresses": "203.0.113.0/24,2001:db8::/32",
        "page_web_acl_arn": "arn:aws:wafv2:us-east-1:111122223333:global/webacl/page/0a1b2c3d",
        "api_domain": "api.example.com",
        "socket_domain": "socket.example.com",
        "api_certificate_arn": "arn:aws:acm:eu-west-1:111122223333:certificate/0a1b2c3d",
    },
    "prod, tasks in another network, a given image": {
        "name": "prod",
        **MODEL,
        **OWN_NETWORK,
        "exec_image": "111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1",
    },
    "prod, a restored table, chosen zones": {
        "name": "prod",
        **MODEL,
        "table_name": "stepline-prod-20261126120000",
        "exec_zones": "usw1-az1,usw1-az3",
    },
    "prod, what an account asks for": {
        "name": "prod",
        **MODEL,
        "permissions_boundary_arn": "arn:aws:iam::111122223333:policy/builders",
        "kms_key_arn": "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
        "tags": json.dumps({"team": "shop"}),
        "memory": "s3_vectors",
        "av": "guardduty",
        "event_source_principals": BILLING,
    },
    "a long name, Python 3.12, no alarms": {
        "name": "a-rather-long-na",
        "python": "3.12",
        "alarms": "false",
        "inspect": "none",
        "log_retention_days": "365",
    },
    "a long name, releases by parts": {
        "name": "a-rather-long-na",
        "shift": "linear",
        "alarms": "true",
        "exec_cpu": "4096",
        "exec_memory_mib": "30720",
    },
}

(CHECKOV,) = re.findall(r"uvx checkov==([\d.]+)", (ROOT / "Makefile").read_text())

MARGIN = 0.8
ENVIRONMENT_BYTES = 4_096
POLICY_CHARS = 10_240
"""Of all inline policies of a role, without whitespace. Source: docs.aws.amazon.com/IAM, "IAM and AWS STS quotas"."""
RESOURCES, OUTPUTS, PARAMETERS, TEMPLATE_BYTES = 500, 200, 200, 1_000_000
"""Source: docs.aws.amazon.com/AWSCloudFormation, "Understand CloudFormation quotas"."""
LAYERS = 5
LONGEST = {"AWS::Partition": 10, "AWS::Region": 14, "AWS::AccountId": 12, "AWS::URLSuffix": 16}
INTRINSIC = 80
"""The most characters of other references: a name that CloudFormation makes, or the end of an ARN."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of an option set's templates, each written once; those that AWS's rules refuse are not."""
    made = {}

    def write(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("options")
            review, refused = reviewed(folder, Stage(**OPTION_SETS[name]))
            made[name] = (folder / "cdk.out", review, refused)
        return made[name]

    return write


def templates(folder):
    return {path.name: json.loads(path.read_text()) for path in folder.glob("*.template.json")}


def of_kind(template, kind):
    return [one["Properties"] for one in template["Resources"].values() if one["Type"] == kind]


def flat(value):
    """A template's text as a deployment resolves it, or somewhat longer."""
    match value:
        case str() | int():
            return str(value)
        case {"Fn::Join": [separator, parts]}:
            return separator.join(flat(part) for part in parts)
        case {"Ref": name}:
            return "x" * LONGEST.get(name, INTRINSIC)
        case dict():
            return "x" * INTRINSIC
        case _:
            raise TypeError(value)


def sizes(template):
    """(what, its size, the limit) of everything in a template that AWS limits."""
    yield "resources", len(template["Resources"]), RESOURCES
    yield "outputs", len(template.get("Outputs", {})), OUTPUTS
    yield "parameters", len(template.get("Parameters", {})), PARAMETERS
    yield "template", len(json.dumps(template)), TEMPLATE_BYTES
    for function in of_kind(template, "AWS::Lambda::Function"):
        variables = function.get("Environment", {}).get("Variables", {})
        yield (
            f"environment of {function['Handler']}",
            sum(len(k) + len(flat(v).encode()) for k, v in variables.items()),
            ENVIRONMENT_BYTES,
        )
        assert len(function.get("Layers", [])) <= LAYERS
    policies = defaultdict(int)
    for policy in of_kind(template, "AWS::IAM::Policy"):
        for role in policy["Roles"]:
            policies[role["Ref"]] += len(
                json.dumps(resolved(policy["PolicyDocument"]), separators=(",", ":"))
            )
    for role, chars in policies.items():
        yield f"policies of {role}", chars, POLICY_CHARS


def resolved(document):
    match document:
        case dict() if set(document) & {
            "Ref",
            "Fn::Join",
            "Fn::GetAtt",
            "Fn::ImportValue",
            "Fn::Sub",
            "Fn::GetStackOutput",
        }:
            return flat(document)
        case dict():
            return {key: resolved(value) for key, value in document.items()}
        case list():
            return [resolved(value) for value in document]
        case _:
            return document


@pytest.mark.parametrize("name", OPTION_SETS)
def test_a_stage_passes_the_rules_of_aws(written, name):
    _, review, refused = written(name)
    assert review.open == []
    assert not refused


@pytest.mark.parametrize("name", OPTION_SETS)
def test_a_stage_passes_cfn_lint(written, name):
    folder, _, _ = written(name)
    command = [
        str(Path(sys.executable).parent / "cfn-lint"),
        "--config-file",
        str(ROOT / "stepline_cdk/cfnlint.yaml"),
    ]
    done = subprocess.run(
        [*command, "--template", *map(str, folder.glob("*.template.json"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", OPTION_SETS)
def test_a_stage_keeps_its_distance_from_the_limits_of_aws(written, name):
    folder, _, _ = written(name)
    found = {
        (file.removesuffix(".template.json"), what): (size, limit)
        for file, template in templates(folder).items()
        for what, size, limit in sizes(template)
    }
    assert len(found) > 40
    assert {key: pair for key, pair in found.items() if pair[0] > MARGIN * pair[1]} == {}


def test_no_template_has_a_finding_of_checkov(written, tmp_path):
    (tmp_path / "cdk.out").mkdir()
    for number, name in enumerate(OPTION_SETS):
        folder, _, _ = written(name)
        for path in folder.glob("*.template.json"):
            shutil.copy(path, tmp_path / "cdk.out" / f"{number}-{path.name}")
    command = [str(Path(sys.executable).parent / "uvx"), f"checkov=={CHECKOV}"]
    done = subprocess.run(
        [*command, "--config-file", str(ROOT / "stepline_cdk/checkov.yaml")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
