"""`stepline doctor --aws`: the requirements of an account. moto answers, or a stub if moto cannot."""

import json
from contextlib import contextmanager

import pytest
from botocore.exceptions import NoCredentialsError
from botocore.stub import Stubber

from stepline.errors import AuthError, InputError
from stepline.local.cloud.account import AwsAccount, look, open_account
from stepline.local.cloud.readiness import (
    check_bootstrap,
    check_builds,
    check_distributions,
    check_identity,
    check_model,
    check_region,
    check_roles,
    check_tasks,
    readiness,
)
from tests.unit.local.cloud.recorded_programs import ACCOUNT_ID, REGION, bootstrap, refused, session


@contextmanager
def answering(account, service, operation, response=None, error=""):
    with Stubber(account.client(service)) as stub:
        if error:
            stub.add_client_error(operation, error, "refused")
        else:
            stub.add_response(operation, response)
        yield
        stub.assert_no_pending_responses()


def test_the_identity_is_shown(account):
    check = check_identity(account)
    assert check.ok
    assert ACCOUNT_ID in check.detail


def test_another_account_than_the_stages_is_reported(account):
    (check,) = readiness(account, "dev", {}, expected="210987654321")
    assert not check.ok
    assert "210987654321" in check.detail


def test_without_credentials_no_other_check_runs(account):
    with answering(account, "sts", "get_caller_identity", error="ExpiredToken"):
        (check,) = readiness(account, "dev", {})
    assert not check.ok
    assert "aws sso login" in check.remedy


def test_an_account_without_bootstrap_gets_the_command(account):
    check = check_bootstrap(account, {})
    assert not check.ok
    assert check.remedy == f"cdk bootstrap aws://{ACCOUNT_ID}/{REGION}"


@pytest.mark.parametrize(("version", "ok"), [("5", False), ("6", True), ("33", True)])
def test_an_old_bootstrap_is_not_enough(account, version, ok):
    bootstrap(account, version)
    check = check_bootstrap(account, {})
    assert check.ok is ok
    assert bool(check.remedy) is not ok


def test_a_bootstrap_of_another_name_is_found(account):
    account.client("ssm").put_parameter(Name="/cdk-bootstrap/ours/version", Value="27", Type="String")
    assert check_bootstrap(account, {"@aws-cdk/core:bootstrapQualifier": "ours"}).ok


def test_a_denied_check_is_unknown_and_names_the_permission(account):
    with answering(account, "ssm", "get_parameter", error="AccessDeniedException"):
        check = check_bootstrap(account, {})
    assert check.ok
    assert check.mark == "unknown"
    assert "ssm:GetParameter" in check.remedy


@pytest.mark.parametrize(
    ("region", "context", "ok"),
    [
        ("eu-central-1", {"snap_start": "true"}, True),
        ("ap-southeast-6", {"snap_start": "true"}, False),
        ("ap-southeast-6", {"snap_start": "false"}, True),
    ],
)
def test_a_region_without_snapshots_is_refused_where_they_are_wanted(aws, region, context, ok):
    check = check_region(AwsAccount(session(region)), "prod", context)
    assert check.ok is ok
    assert ok or "snap_start=false" in check.remedy


def test_an_unknown_region_is_a_warning(aws):
    check = check_region(AwsAccount(session("eu-centrall-1")), "dev", {})
    assert check.mark == "warn"


@pytest.mark.parametrize(("cpu", "programs", "mark"), [("1024", 6, "ok"), ("4096", 1, "warn")])
def test_programs_at_a_time_follow_from_the_quota_and_their_size(account, cpu, programs, mark):
    with answering(account, "service-quotas", "get_service_quota", {"Quota": {"Value": 6.0}}):
        check = check_tasks(account, {"exec_cpu": cpu})
    assert check.mark == mark
    assert f": {programs} program" in check.detail


QUOTA = {"Quota": {"Value": 1000.0}}


@pytest.mark.parametrize(
    ("context", "names"),
    [
        ({}, {"cloudfront", "builds", "fargate"}),
        ({"exec_image": "asset"}, {"cloudfront", "fargate"}),
        ({"exec_image": "none", "page": "false"}, set()),
    ],
)
def test_an_account_is_checked_for_the_parts_that_a_stage_has(account, context, names):
    with Stubber(account.client("service-quotas")) as stub:
        for _ in names - {"cloudfront"}:
            stub.add_response("get_service_quota", QUOTA)
        found = {check.name for check in readiness(account, "dev", context)}
    assert found & {"cloudfront", "builds", "fargate"} == names


@pytest.mark.parametrize(("value", "mark"), [(0.0, "NO"), (1.0, "ok")])
def test_an_account_that_may_build_nothing_is_refused_with_the_choices_that_go_without(account, value, mark):
    with answering(account, "service-quotas", "get_service_quota", {"Quota": {"Value": value}}):
        check = check_builds(account)
    assert check.mark == mark
    assert ("-c exec_image=none" in check.remedy) is (mark == "NO")
    assert ("codebuild --quota-code L-5ED1D25B" in check.remedy) is (mark == "NO")


def test_a_region_without_builds_for_arm64_is_a_warning_with_the_choices_that_go_without(aws):
    check = check_builds(AwsAccount(session("eu-south-2")))
    assert (check.mark, "-c exec_image=asset" in check.remedy) == ("warn", True)


@pytest.mark.parametrize("error", ["AccessDeniedException", "NoSuchResourceException"])
def test_a_quota_that_cannot_be_read_is_unknown(account, error):
    with answering(account, "service-quotas", "get_service_quota", error=error):
        check = check_builds(account)
    assert (check.ok, check.mark) == (True, "unknown")


@pytest.mark.parametrize(("distributions", "mark"), [(0, "unknown"), (1, "ok")])
def test_an_account_without_distributions_may_be_refused_its_first_one(account, distributions, mark):
    found = {
        "Marker": "",
        "MaxItems": 1,
        "IsTruncated": False,
        "Quantity": distributions,
    }
    with answering(account, "cloudfront", "list_distributions", {"DistributionList": found}):
        check = check_distributions(account)
    assert (check.ok, check.mark) == (True, mark)
    assert ("-c page=false" in check.remedy) is (mark == "unknown")


def test_an_account_without_room_for_one_program_is_offered_none(account):
    with answering(account, "service-quotas", "get_service_quota", {"Quota": {"Value": 0.0}}):
        check = check_tasks(account, {})
    assert (check.mark, "-c exec_image=none" in check.detail) == ("warn", True)


def test_a_stage_deployed_elsewhere_is_not_reported_as_without_a_key(account):
    with Stubber(account.client("service-quotas")) as stub:
        for _ in ("builds", "fargate"):
            stub.add_response("get_service_quota", QUOTA)
        found = {check.name: check for check in readiness(account, "dev", None)}
    assert (found["model"].mark, "dev" in found["model"].detail) == ("unknown", True)


def test_a_stage_without_a_key_is_warned(account):
    check = check_model(account, "dev", {})
    assert check.mark == "warn"
    assert "model_secret_arn" in check.remedy


@pytest.mark.parametrize(("text", "ok"), [("sk-1", True), (" ", False)])
def test_a_key_is_weighed_and_never_shown(account, text, ok):
    secrets = account.client("secretsmanager")
    arn = secrets.create_secret(Name="stepline/dev/model", SecretString=text)["ARN"]
    check = check_model(account, "dev", {"model_secret_arn": arn})
    assert check.ok is ok
    assert "sk-1" not in f"{check.detail} {check.remedy}"


def test_a_missing_secret_is_reported(account):
    check = check_model(account, "dev", {"model_secret_arn": "nowhere"})
    assert not check.ok
    assert "create-secret" in check.remedy


@pytest.mark.parametrize(
    ("context", "ok"),
    [
        ({}, True),
        ({"model_roles": '{"*": "anthropic.claude-z"}'}, True),
        ({"model_roles": '{"strong": "eu.anthropic.gone"}'}, False),
        ({"model_roles": '{"*": {"fallback": "eu.anthropic.gone"}}'}, False),
    ],
)
def test_models_are_compared_with_what_bedrock_offers(account, context, ok):
    profile = {
        "inferenceProfileName": "n",
        "inferenceProfileArn": "arn:aws:bedrock:eu-central-1::inference-profile/x",
        "inferenceProfileId": "global.anthropic.claude-sonnet-5-5",
        "models": [{"modelArn": "arn:aws:bedrock:eu-central-1::foundation-model/x"}],
        "status": "ACTIVE",
        "type": "SYSTEM_DEFINED",
    }
    model = {
        "modelArn": "arn:aws:bedrock:eu-central-1::foundation-model/anthropic.claude-z",
        "modelId": "anthropic.claude-z",
    }
    with Stubber(account.client("bedrock")) as stub:
        stub.add_response("list_inference_profiles", {"inferenceProfileSummaries": [profile]})
        stub.add_response("list_foundation_models", {"modelSummaries": [model]})
        check = check_model(account, "dev", {"model_provider": "bedrock", **context})
    assert check.ok is ok
    assert ok or "eu.anthropic.gone" in check.detail


SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:own-AbCdEf"


def test_the_models_of_converse_and_the_secrets_of_rows_are_checked_too(account):
    rows = {"nova": {"wire": "converse"}, "own": {"base_url": "https://h/v1", "secret_arn": SECRET}}
    context = {
        "model_provider": "bedrock",
        "model_providers": json.dumps(rows),
        "model_roles": json.dumps({"*": "nova:amazon.nova-2-lite-v1:0", "gate.simple": "own:m"}),
    }
    model = {
        "modelArn": "arn:aws:bedrock:eu-central-1::foundation-model/x",
        "modelId": "amazon.nova-2-lite-v1:0",
    }

    def found(models, secret):
        with Stubber(account.client("bedrock")) as stub, Stubber(account.client("secretsmanager")) as secrets:
            stub.add_response("list_inference_profiles", {"inferenceProfileSummaries": []})
            stub.add_response("list_foundation_models", {"modelSummaries": models})
            secrets.add_response("get_secret_value", {"SecretString": secret})
            return check_model(account, "dev", context)

    assert found([model], "sk-secret").ok
    gone, empty = found([], "sk-secret"), found([model], " ")
    assert (gone.ok, empty.ok) == (False, False)
    assert "amazon.nova-2-lite-v1:0" in gone.detail
    assert f"the secret {SECRET} is empty" in empty.detail
    assert "sk-secret" not in f"{gone} {empty}"


PROFILE = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/x1"
THROUGHPUT = "arn:aws:bedrock:eu-central-1:123456789012:provisioned-model/p1"
HAIKU = "arn:aws:bedrock:eu-central-1::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0"
NOVA = "arn:aws:bedrock:eu-central-1::foundation-model/amazon.nova-pro-v1:0"


def described_profile(model):
    return {
        "inferenceProfileName": "n",
        "inferenceProfileArn": PROFILE,
        "inferenceProfileId": "x1",
        "models": [{"modelArn": model}],
        "status": "ACTIVE",
        "type": "APPLICATION",
    }


@pytest.mark.parametrize(
    ("role", "model", "mark", "says"),
    [
        ({"model": PROFILE, "family": "claude-haiku-4-5"}, HAIKU, "ok", "Bedrock offers"),
        ({"model": PROFILE}, HAIKU, "warn", '"family": "claude-haiku-4-5'),
        ({"model": PROFILE, "family": "claude-opus-5-5"}, HAIKU, "warn", '"family": "claude-haiku-4-5'),
        ({"model": PROFILE}, NOVA, "NO", "amazon.nova-pro-v1:0, no model of Anthropic"),
        ({"fallback": PROFILE, "fallback_family": "claude-haiku-4-5"}, HAIKU, "ok", "Bedrock offers"),
        ({"model": PROFILE.replace("central", "west")}, None, "NO", "is not in eu-central-1"),
    ],
)
def test_a_profile_of_the_account_is_looked_up_and_compared_with_the_family_that_its_role_names(
    account, role, model, mark, says
):
    offered = {**described_profile(NOVA), "inferenceProfileId": "global.anthropic.claude-sonnet-5-5"}
    with Stubber(account.client("bedrock")) as stub:
        stub.add_response("list_inference_profiles", {"inferenceProfileSummaries": [offered]})
        stub.add_response("list_foundation_models", {"modelSummaries": []})
        if model:
            asked = {"inferenceProfileIdentifier": PROFILE}
            stub.add_response("get_inference_profile", described_profile(model), asked)
        roles = json.dumps({"*": role})
        check = check_model(account, "dev", {"model_provider": "bedrock", "model_roles": roles})
    assert check.mark == mark
    assert says in f"{check.detail} {check.remedy}"


def test_a_profile_that_does_not_exist_is_reported(account):
    with Stubber(account.client("bedrock")) as stub:
        stub.add_response("list_inference_profiles", {"inferenceProfileSummaries": []})
        stub.add_response("list_foundation_models", {"modelSummaries": []})
        stub.add_client_error("get_provisioned_model_throughput", "ResourceNotFoundException")
        roles = json.dumps({"*": THROUGHPUT})
        check = check_model(account, "dev", {"model_provider": "bedrock", "model_roles": roles})
    assert not check.ok
    assert "not found" in check.detail


def test_a_request_that_never_arrives_is_a_failure_with_a_remedy():
    def question():
        raise NoCredentialsError

    check = look("x", "x:Y", question)
    assert not check.ok
    assert check.remedy


def test_a_missing_profile_is_reported(aws):
    error = refused(open_account, "no-such-profile")
    assert isinstance(error, AuthError)
    assert "no-such-profile" in str(error)


def test_a_missing_region_is_refused_first(aws, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert isinstance(refused(open_account), InputError)


def test_the_region_is_read_as_the_cdk_reads_it(aws, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert open_account().region == "eu-west-1"
    assert open_account(region="us-east-1").environment()["AWS_REGION"] == "us-east-1"


@pytest.mark.parametrize(
    ("roles", "says"),
    [
        ('{"*": {"thinking": "disabled"}}', "between_tools"),
        ('{"*": {"model": "claude-fable-5-1", "thinking": "disabled"}}', "adaptive"),
        ('{"*": {"model": "claude-opus-5-5", "thinking": 2048}}', "budget"),
        ('{"*": {"model": "claude-haiku-4-5", "thinking": "adaptive"}}', "budget"),
        ('{"*": {"model": "claude-haiku-4-5", "thinking": 2048, "max_tokens": 2000}}', "2048"),
        ('{"*": {"model": "claude-haiku-4-5", "effort": "low"}}', "effort low"),
        ('{"*": {"model": "claude-opus-4-6", "effort": "xhigh"}}', "effort xhigh"),
        ('{"*": {"model": "claude-opus-5", "thinking": "disabled", "effort": "max"}}', "effort max"),
        ('{"gate.simple": {"model": "claude-haiku-4-5", "max_tokens": 64001}}', "64000"),
        ('{"*": {"thinking": "none"}}', "STEPLINE_MODEL_ROLES"),
    ],
)
def test_settings_that_a_model_refuses_are_reported_without_a_request(roles, says):
    check = check_roles({"model_roles": roles})
    assert not check.ok
    assert says in check.detail
    assert check.remedy


@pytest.mark.parametrize(
    ("roles", "mark"),
    [
        ("", "ok"),
        ('{"*": {"model": "claude-opus-5", "thinking": "disabled", "effort": "high"}}', "ok"),
        ('{"*": {"model": "our-own", "thinking": "disabled", "max_tokens": 1000000}}', "ok"),
        ('{"answer.generator": "claude-haiku-5-5"}', "warn"),
    ],
)
def test_a_role_that_stepline_never_asks_as_is_only_noted(roles, mark):
    assert check_roles({"model_roles": roles}).mark == mark


def test_without_valid_roles_the_models_are_not_looked_for(account):
    with Stubber(account.client("bedrock")):  # any request is an error here
        context = {"model_provider": "bedrock", "model_roles": "[]"}
        names = [check.name for check in readiness(account, "dev", context) if not check.ok]
    assert "model roles" in names
    assert "model" not in names
