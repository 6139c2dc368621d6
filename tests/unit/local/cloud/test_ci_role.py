"""The role of CI: its trust, and that its policy covers each call of a deployment and nothing of another stage."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from stepline.errors import InputError
from stepline.local.cloud.account import AwsAccount
from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.deploy_failure import explain_failure
from stepline.local.cloud.health import is_deployed
from stepline.local.cloud.role.caller_rights import StagePlace
from stepline.local.cloud.role.ci_role import TOKENS, read_trust, render_ci_role
from stepline.local.cloud.stage_choices import RECORD
from stepline.local.command.cli import main
from stepline.local.command.cloud import CI_SERVICES
from tests.unit.local.cloud import recorded_programs
from tests.unit.local.cloud.recorded_programs import ACCOUNT_ID, REGION, order, refused, session

SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT_ID}:secret:model-AbCdEf"
PROFILE = f"arn:aws:bedrock:{REGION}:{ACCOUNT_ID}:application-inference-profile/x1"
POOL = f"{REGION}_abc"
OUTPUTS = {
    "WebSocketUrl": "wss://far/live",
    "UserPoolId": POOL,
    "UserPoolClientId": "client",
}
PSEUDO = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT_ID}
AT = datetime(2026, 11, 28, tzinfo=UTC)
ONE, TWO, THREE = (f"{word:0>8}-0000-4000-8000-000000000000" for word in "123")


def arn(service, resource, region=REGION, account=ACCOUNT_ID):
    return f"arn:aws:{service}:{region}:{account}:{resource}"


def function_arn(asked):
    suffix = f":{asked['Qualifier']}" if "Qualifier" in asked else ""
    return arn("lambda", f"function:{asked['FunctionName']}{suffix}")


def pool_arn(asked):
    return arn("cognito-idp", f"userpool/{asked['UserPoolId']}")


def anything(_asked):
    return "*"


def stack_arn(asked):
    return arn("cloudformation", f"stack/{asked['StackName']}/some-id")


NEEDS = {
    "GetCallerIdentity": {},  # always allowed
    "GetParameter": {"ssm:GetParameter": lambda asked: arn("ssm", f"parameter{asked['Name']}")},
    "GetServiceQuota": {"servicequotas:GetServiceQuota": anything},
    "ListDistributions": {"cloudfront:ListDistributions": anything},
    "GetSecretValue": {"secretsmanager:GetSecretValue": lambda asked: asked["SecretId"]},
    "ListInferenceProfiles": {"bedrock:ListInferenceProfiles": anything},
    "ListFoundationModels": {"bedrock:ListFoundationModels": anything},
    "GetInferenceProfile": {"bedrock:GetInferenceProfile": lambda asked: asked["inferenceProfileIdentifier"]},
    "GetAccountSettings": {"lambda:GetAccountSettings": anything},
    "GetFunctionConcurrency": {"lambda:GetFunctionConcurrency": function_arn},
    **{
        name: {f"lambda:{name}": lambda asked: f"{function_arn(asked)}:{asked['Name']}"}
        for name in ("GetAlias", "UpdateAlias", "CreateAlias")
    },
    "DescribeStacks": {"cloudformation:DescribeStacks": stack_arn},
    "DescribeStackEvents": {"cloudformation:DescribeStackEvents": stack_arn},
    **{
        name: {f"cognito-idp:{name}": pool_arn}
        for name in ("AdminCreateUser", "AdminSetUserPassword", "AdminInitiateAuth", "AdminDeleteUser")
    },
}
"""The actions that a request needs, and on which resource. Source: Service Authorization Reference."""
HAIKU = "anthropic.claude-haiku-4-5-20251001-v1:0"
ANSWERS = {
    "GetCallerIdentity": {"Account": ACCOUNT_ID, "Arn": f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/ci/run"},
    "GetParameter": {"Parameter": {"Value": "27"}},
    "GetServiceQuota": {"Quota": {"Value": 10.0}},
    "ListDistributions": {"DistributionList": {"Quantity": 1}},
    "GetSecretValue": {"SecretString": "key"},
    "ListInferenceProfiles": {"inferenceProfileSummaries": []},
    "ListFoundationModels": {"modelSummaries": []},
    "GetInferenceProfile": {"models": [{"modelArn": f"arn:aws:bedrock:{REGION}::foundation-model/{HAIKU}"}]},
    "GetAccountSettings": {
        "AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900}
    },
    "DescribeStacks": {
        "Stacks": [{"StackName": "s", "StackStatus": "ROLLBACK_COMPLETE", "CreationTime": AT}]
    },
    "DescribeStackEvents": {"StackEvents": []},
    "AdminInitiateAuth": {"AuthenticationResult": {"IdToken": "token"}},
}


class RecordedAccount(AwsAccount):
    """Answers every request itself, and keeps it."""

    def __init__(self):
        super().__init__(session(REGION))
        self.requests = []

    def client(self, service):
        is_new = service not in self._clients
        found = super().client(service)
        if is_new:
            found.meta.events.register("provide-client-params", self._note)
            found.meta.events.register_first("before-call", self._answer)
        return found

    def _note(self, params, model, **_):
        self.requests.append((model.name, params))

    def _answer(self, model, **_):
        answer = ANSWERS.get(model.name, {})
        if self.requests[-1][1].get("Name") == RECORD.format("dev"):
            answer = {"Parameter": {"Value": "{}"}}
        if model.name == "GetAlias":  # a deployment moves it
            answer = {"FunctionVersion": str(len(self.requests))}
        return SimpleNamespace(status_code=200), {**answer}


@pytest.fixture
def with_functions(monkeypatch):
    functions = {
        "Decide": {
            "Type": "AWS::Lambda::Function",
            "Properties": {"FunctionName": "stepline-dev-decide"},
        },
        "Live": {"Type": "AWS::Lambda::Alias", "Properties": {"FunctionName": {"Ref": "Decide"}}},
    }
    loop = {"Description": "loop", "Resources": functions}
    monkeypatch.setitem(recorded_programs.TEMPLATES, "stepline-dev-loop", loop)


def policy(place):
    template = json.loads(render_ci_role(place, read_trust("github", "acme/agent", "main", "")))
    (given,) = template["Resources"]["Role"]["Properties"]["Policies"]
    return given["PolicyDocument"]["Statement"]


def expanded(resource):
    text = resource["Fn::Sub"] if isinstance(resource, dict) else resource
    for name, value in PSEUDO.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def allows(statements, action, resource):
    return any(
        action in statement["Action"]
        and any(fnmatchcase(resource, expanded(pattern)) for pattern in statement["Resource"])
        for statement in statements
    )


def deployed_by(account, context, programs, choices):
    """Deploy, then fail to deploy again; return the requests of both."""
    programs.outputs["stepline-dev-loop"] = OUTPUTS
    here = replace(
        context,
        open_account=lambda _profile, _region: account,
        is_deployed=is_deployed,
        explain=explain_failure,
    )
    _, code = deploy_stage(order(choices=choices), here)
    assert code == 0
    programs.failing.add("deploy")
    refused(deploy_stage, order(), here)
    return account.requests


@pytest.mark.usefixtures("with_functions")
@pytest.mark.parametrize("outputs", [{}, OUTPUTS], ids=["before the first deployment", "after it"])
@pytest.mark.parametrize(
    "choices",
    [
        {"model_secret_arn": SECRET},
        {
            "model_provider": "bedrock",
            "model_roles": json.dumps({"*": {"model": PROFILE, "family": "claude-haiku-4-5"}}),
        },
    ],
    ids=["a key", "Bedrock"],
)
def test_the_role_allows_each_request_of_a_deployment(context, programs, choices, outputs):
    requests = deployed_by(RecordedAccount(), context, programs, choices)
    statements = policy(StagePlace(stage="dev", context=choices, outputs=outputs))
    refusals = [
        (action, resource(asked))
        for name, asked in requests
        for action, resource in NEEDS[name].items()
        if not allows(statements, action, resource(asked))
    ]
    assert refusals == []
    named = {action for name, _ in requests for action in NEEDS[name]} | {"sts:AssumeRole"}
    granted = {action for statement in statements for action in statement["Action"]}
    assert granted - named <= {"bedrock:GetProvisionedModelThroughput", "lambda:CreateAlias"}


@pytest.mark.parametrize("other", ["dev-two", "development", "prod", "d"])
def test_the_role_allows_nothing_of_another_stage(other):
    statements = policy(StagePlace(stage="dev", context={"model_secret_arn": SECRET}, outputs=OUTPUTS))
    theirs = {
        "lambda:UpdateAlias": arn("lambda", f"function:stepline-{other}-decide:live"),
        "lambda:GetAlias": arn("lambda", f"function:stepline-{other}-decide"),
        "cloudformation:DescribeStacks": arn("cloudformation", f"stack/stepline-{other}-loop/id"),
        "cognito-idp:AdminCreateUser": arn("cognito-idp", f"userpool/{REGION}_other"),
        "secretsmanager:GetSecretValue": arn("secretsmanager", "secret:other-AbCdEf"),
        "ssm:GetParameter": arn("ssm", f"parameter/stepline/{other}/choices"),
        "sts:AssumeRole": arn("iam", f"role/cdk-other-deploy-role-{ACCOUNT_ID}-{REGION}", region=""),
    }
    assert [action for action, resource in theirs.items() if allows(statements, action, resource)] == []
    everywhere = {action for one in statements if one["Resource"] == ["*"] for action in one["Action"]}
    assert everywhere == {
        "cloudfront:ListDistributions",
        "servicequotas:GetServiceQuota",
        "lambda:GetAccountSettings",
    }


def test_before_the_pool_exists_only_that_of_the_stages_stack_is_allowed():
    (users,) = [
        one for one in policy(StagePlace(stage="dev")) if "cognito-idp:AdminCreateUser" in one["Action"]
    ]
    tag = {"aws:ResourceTag/aws:cloudformation:stack-name": "stepline-dev-state"}
    assert users["Condition"] == {"StringEquals": tag}


@pytest.mark.parametrize(("image", "publishes"), [("asset", True), ("codebuild", False)])
def test_images_are_published_only_by_a_stage_that_builds_them_here(image, publishes):
    statements = policy(StagePlace(stage="dev", context={"exec_image": image}))
    role = arn("iam", f"role/cdk-hnb659fds-image-publishing-role-{ACCOUNT_ID}-{REGION}", region="")
    assert allows(statements, "sts:AssumeRole", role) is publishes


def test_the_policy_fits_into_a_role():
    place = StagePlace(stage="abcdefghijklmnop", context={"model_secret_arn": SECRET, "exec_image": "asset"})
    texts = [
        json.dumps(
            {**one, "Resource": [expanded(resource) for resource in one["Resource"]]}, separators=(",", ":")
        )
        for one in policy(place)
    ]
    assert sum(map(len, texts)) < 10_240 * 0.8


GITHUB = "token.actions.githubusercontent.com"


@pytest.mark.parametrize(
    ("given", "issuer", "subject"),
    [
        (("github", "acme/agent", "main", ""), GITHUB, "repo:acme/agent:ref:refs/heads/main"),
        (("github", "acme/agent", "", "prod"), GITHUB, "repo:acme/agent:environment:prod"),
        (
            ("gitlab", "acme/ai/agent", "main", ""),
            "gitlab.com",
            "project_path:acme/ai/agent:ref_type:branch:ref:main",
        ),
        (
            ("bitbucket", f"acme/{ONE}/{TWO}", "", THREE),
            "api.bitbucket.org/2.0/workspaces/acme/pipelines-config/identity/oidc",
            f"{{{TWO}}}:{{{THREE}}}:*",
        ),
        (
            ("circleci", f"{ONE}/{TWO}", "main", ""),
            f"oidc.circleci.com/org/{ONE}",
            f"org/{ONE}/project/{TWO}/user/*/vcs-origin/*/vcs-ref/refs/heads/main",
        ),
    ],
)
def test_tokens_of_one_branch_or_environment_are_trusted(given, issuer, subject):
    trust = read_trust(*given)
    assert (trust.issuer, trust.subject) == (issuer, subject)
    role = json.loads(render_ci_role(StagePlace(stage="dev"), trust))["Resources"]["Role"]["Properties"]
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    condition = statement["Condition"]
    assert condition["StringEquals"][f"{issuer}:aud"] == trust.audience
    assert condition["StringLike" if "*" in subject else "StringEquals"][f"{issuer}:sub"] == subject


@pytest.mark.parametrize(
    ("service", "repository", "branch", "environment", "says"),
    [
        ("github", "acme", "main", "", "OWNER/NAME"),
        ("github", "acme/*", "main", "", "OWNER/NAME"),
        ("github", "acme/agent", "*", "", "not one name"),
        ("github", "acme/agent", "", "", "--branch"),
        ("github", "acme/agent", "main", "prod", "--branch"),
        ("gitlab", "acme/agent", "", "prod", "--branch"),
        ("bitbucket", f"acme/{ONE}/{TWO}", "main", "", "--environment"),
        ("circleci", "acme/agent", "main", "", "ORGANIZATION_ID/PROJECT_ID"),
    ],
)
def test_a_trust_that_would_reach_further_is_refused(service, repository, branch, environment, says):
    with pytest.raises(InputError, match=says) as error:
        read_trust(service, repository, branch, environment)
    assert error.value.reason == "bad_choice"


def test_the_command_offers_the_services_whose_tokens_are_known():
    assert tuple(TOKENS) == CI_SERVICES


def test_the_command_prints_the_template_and_asks_no_account(tmp_path, monkeypatch):
    monkeypatch.setattr("stepline.local.stage.deployed.HOME", tmp_path)
    options = ("--print-ci-role", "github", "--repository", "acme/agent", "--branch", "main")
    done = CliRunner().invoke(
        main, ["deploy", "--stage", "prod", *options, "-c", f"model_secret_arn={SECRET}"]
    )
    assert done.exit_code == 0, done.output
    given = json.loads(done.stdout)["Resources"]["Role"]["Properties"]["Policies"][0]["PolicyDocument"]
    assert allows(given["Statement"], "secretsmanager:GetSecretValue", SECRET)
    assert allows(given["Statement"], "lambda:GetAlias", arn("lambda", "function:stepline-prod-decide:live"))
