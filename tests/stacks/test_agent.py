"""An agent in an app of someone else: one construct, in any stack, once or twice."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks

from stepline.errors import InputError
from stepline_cdk import Agent
from stepline_cdk.access import ACCESS, MODEL
from stepline_cdk.agent import OF_CDK, OF_EMULATOR, PROPS, RESOURCES
from stepline_cdk.choice_props import ChoiceProps
from stepline_cdk.names import NAMES
from stepline_cdk.stage import Stage
from tests.stacks.conftest import BILLING, PAGE, ROOT, TOPIC, Synthesis, cdk
from tests.stacks.empty_layers import code_of
from tests.stacks.role import listed
from tests.stacks.test_deployment import needs_of
from tests.stacks.test_option_sets import MARGIN, sizes

BUNDLE = "examples.shop"
EVERYTHING = {
    "page": PAGE,
    "programs": True,
    "keep_data": True,
    "alarms": True,
    "alarm_topic_arn": TOPIC,
    "dashboard": True,
    "tracing": "on",
    "memory": "s3_vectors",
    "av": "guardduty",
    "shift": "canary",
    "snap_start": True,
    "socket_access_log": True,
    "event_source_principals": (BILLING,),
    "concurrency": 1000,
    "stream_readers": 20,
    "saml_metadata_url": "https://company.example.com/metadata.xml",
    "federation_tenant_claim": "org",
    "federation_project_claim": "team",
    "allowed_addresses": ("203.0.113.0/24",),
    "page_web_acl_arn": "arn:aws:wafv2:us-east-1:111122223333:global/webacl/page/0a1b2c3d",
    "api_domain": "api.example.com",
    "socket_domain": "socket.example.com",
    "api_certificate_arn": "arn:aws:acm:eu-west-1:111122223333:certificate/0a1b2c3d",
    "exec_zones": ("usw1-az1", "usw1-az3"),
}
"""And a VPC of the functions, which is of the stack; tasks have a network of their own."""
FUNCTION, POLICY = "AWS::Lambda::Function", "AWS::IAM::Policy"


class Shop:
    """An app with one stack, `Shop`, without any flag of ours."""

    def __init__(self, folder):
        self.app = cdk.App(outdir=str(folder / "cdk.out"))
        self.stack = cdk.Stack(self.app, "Shop")
        self.code = code_of(Stage(), folder)

    def add(self, construct_id="Agent", *, scope=None, **props):
        return Agent(scope or self.stack, construct_id, **{"bundle": BUNDLE, "code": self.code, **props})

    def findings(self):
        """What AWS's rules find in the app: each with its construct."""
        report = AwsSolutionsChecks(self.app).validate_scope(self.app)
        return {
            (one.rule_name, place.construct_path)
            for one in report.violations
            for place in one.violating_resources
        }

    def resources(self):
        return Template.from_stack(self.stack).to_json()["Resources"]


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The template of two agents in one stack, one of them with everything, and what AWS's rules find."""
    shop = Shop(tmp_path_factory.mktemp("two"))
    vpc = ec2.Vpc.from_vpc_attributes(
        shop.stack,
        "Net",
        vpc_id="vpc-0a1b2c3d",
        availability_zones=["a"],
        private_subnet_ids=["subnet-0a1b2c3d"],
    )
    shop.add("First", vpc=vpc, **EVERYTHING)
    shop.add("Second", programs=True)
    return shop.findings(), shop.resources()


def of_kind(resources, kind):
    return {key: one["Properties"] for key, one in resources.items() if one["Type"] == kind}


def policy_of(resources, function):
    """The statements of a function's role."""
    found = [
        one["PolicyDocument"]["Statement"]
        for key, one in of_kind(resources, POLICY).items()
        if function in key
    ]
    (statements,) = found
    return statements


def variables_of(resources, function):
    (found,) = [
        one["Environment"]["Variables"]
        for one in of_kind(resources, FUNCTION).values()
        if one["Handler"] == f"lambdas.{function}.handler"
    ]
    return found


def test_a_few_lines_make_an_agent_that_passes_the_rules_of_aws(shop):
    secret = secretsmanager.Secret.from_secret_complete_arn(
        shop.stack, "Key", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:model-AbCdEf"
    )
    agent = shop.add(model_secret=secret)
    cdk.CfnOutput(shop.stack, "Socket", value=agent.socket_url)
    assert shop.findings() == set()
    assert len(of_kind(shop.resources(), "AWS::StepFunctions::StateMachine")) == 1


def test_two_agents_in_one_stack_pass_the_rules_of_aws(two):
    findings, _ = two
    assert findings == set()


def test_an_agent_has_as_many_resources_as_it_says(two, shop):
    shop.add()
    _, resources = two
    everything = [name for name in resources if name.startswith("First")]
    assert (len(shop.resources()), len(everything)) == RESOURCES


def test_two_agents_without_any_flag_of_the_cdk_keep_their_distance_from_the_limits_of_aws(two):
    _, resources = two
    found = {
        what: (size, limit) for what, size, limit in sizes({"Resources": resources}) if what != "resources"
    }
    assert len(found) > 40
    assert {what: pair for what, pair in found.items() if pair[0] > MARGIN * pair[1]} == {}


def test_no_resource_of_two_agents_leads_back_to_itself(two):
    _, resources = two
    waiting = {one: needs_of(resource) & resources.keys() for one, resource in resources.items()}
    while free := {one for one, needed in waiting.items() if not needed}:
        waiting = {one: needed - free for one, needed in waiting.items() if one not in free}
    assert not waiting


def test_two_agents_have_no_name_in_common(two):
    _, resources = two
    found = Counter(
        (one["Type"], key, json.dumps(value))
        for one in resources.values()
        for key, value in one.get("Properties", {}).items()
        if key.endswith("Name") and "stepline" in json.dumps(value)
    )
    assert len(found) > 20
    assert {key: times for key, times in found.items() if times > 1} == {}


@pytest.mark.parametrize("stage", ["", "shop"])
def test_an_agent_has_no_export_and_no_record_of_choices(shop, stage):
    shop.add(page=PAGE, stage=stage)
    template = Template.from_stack(shop.stack).to_json()
    assert [one for one in template["Outputs"].values() if "Export" in one] == []
    assert of_kind(template["Resources"], "AWS::SSM::Parameter") == {}


def test_warnings_name_props_as_an_agent_has_them(shop):
    shop.add(keep_data=True, alarms=True, av="none")
    found = [one.entry.data for one in shop.app.synth().get_stack_by_name("Shop").messages]
    text = " ".join(map(str, found))
    for prop in ("(model_secret=", " concurrency=N", "(alarm_topic_arn=", " av=guardduty"):
        assert prop in text
    assert "-c " not in text


def test_names_are_made_by_cloudformation_unless_they_are_needed_or_asked_for(tmp_path):
    def names(folder, **props):
        shop = Shop(folder)
        shop.add(**props)
        return {
            kind
            for kind, key in (
                ("log", "AWS::Logs::LogGroup"),
                ("queue", "AWS::SQS::Queue"),
                ("users", "AWS::Cognito::UserPool"),
            )
            if any(
                str(one.get(name, "")).startswith(NAMES[kind].render("shop", "")[:13])
                for one in of_kind(shop.resources(), key).values()
                for name in ("LogGroupName", "QueueName", "UserPoolName")
            )
        }

    assert names(tmp_path / "left") == set()
    assert names(tmp_path / "asked", stage="shop") == {"log", "queue", "users"}


def test_an_agent_has_the_resources_of_a_stage_with_the_same_choices(tmp_path):
    shop = Shop(tmp_path / "shop")
    shop.add(oidc_audience="agents", issuer="https://login.example")
    stage = Stage(
        name="dev", oidc_audience="agents", oidc_issuer="https://login.example", page=False, exec_image="none"
    )
    synthesis = Synthesis(stage, tmp_path / "stage")
    of_stage = Counter(
        one["Type"] for document in synthesis.documents().values() for one in document["Resources"].values()
    )
    assert of_stage - Counter(one["Type"] for one in shop.resources().values()) == {"AWS::SSM::Parameter": 1}


def test_data_is_kept_and_logs_expire_as_chosen(shop):
    shop.add(keep_data=True, log_retention=cdk.Duration.days(90))
    kept = {
        one["Type"]
        for one in shop.resources().values()
        if one.get("DeletionPolicy") == "Retain" and one["Type"] != "AWS::Lambda::Version"
    }
    assert kept == {"AWS::Cognito::UserPool", "AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket"}
    assert {one["RetentionInDays"] for one in of_kind(shop.resources(), "AWS::Logs::LogGroup").values()} == {
        90
    }


def test_functions_that_ask_the_model_read_its_secret_and_use_its_key(shop):
    key = kms.Key(shop.stack, "Master")
    shop.add(model_secret=secretsmanager.Secret(shop.stack, "Key", encryption_key=key))
    resources = shop.resources()
    for function in ("Decide", "Act", "Close"):
        text = json.dumps(policy_of(resources, f"{function}Role"))
        assert "kms:Decrypt" in text
        assert "secretsmanager:GetSecretValue" in text
    assert "Key" in variables_of(resources, "decide")["STEPLINE_MODEL_SECRET_ARN"]["Ref"]
    assert "sweeper" not in MODEL
    assert "kms:" not in json.dumps(policy_of(resources, "SweeperRole"))


@pytest.mark.parametrize(("programs", "roles"), [(False, {"Act"}), (True, {"Act", "Serve"})])
def test_rights_for_tools_reach_each_role_that_runs_them(shop, programs, roles):
    key = dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING)
    orders = dynamodb.TableV2(shop.stack, "Orders", partition_key=key)
    agent = shop.add(programs=programs)
    orders.grant_read_data(agent.tools_role)
    policies = of_kind(shop.resources(), POLICY)
    reading = {name for name, one in policies.items() if '"Orders' in json.dumps(one)}
    assert len(reading) == len(roles)
    assert all(any(f"Loop{role}Role" in name for role in roles) for name in reading)


def test_a_variable_of_the_tools_reaches_them_alone(shop):
    shop.add().add_tool_environment("ORDERS", "orders")
    resources = shop.resources()
    assert variables_of(resources, "act")["ORDERS"] == "orders"
    assert "ORDERS" not in variables_of(resources, "decide")


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [("STEPLINE_TABLE", "mine", "bad_choice"), ("ORDERS", "x" * 4096, "environment_too_large")],
)
def test_a_variable_that_a_function_cannot_have_is_refused(shop, variable, value, code):
    agent = shop.add()
    with pytest.raises(InputError, match=r"^Shop/Agent: ") as refused:
        agent.add_tool_environment(variable, value)
    assert refused.value.reason == code


def test_a_service_may_submit_events_and_knows_where(shop):
    service = lambda_.Function(
        shop.stack,
        "Backend",
        runtime=lambda_.Runtime.PYTHON_3_14,
        handler="index.handler",
        code=lambda_.Code.from_inline("handler = None"),
    )
    agent = shop.add()
    agent.grant_send(service)
    for variable, value in agent.send_environment.items():
        service.add_environment(variable, value)
    resources = shop.resources()
    granted = {
        action for statement in policy_of(resources, "Backend") for action in listed(statement["Action"])
    }
    needed = {action for right in ACCESS["events"] if not right.only for action in right.actions}
    assert granted <= needed
    assert {"dynamodb:PutItem", "states:StartExecution", "execute-api:ManageConnections"} <= granted
    (backend,) = [one for key, one in of_kind(resources, FUNCTION).items() if key.startswith("Backend")]
    assert "STEPLINE_TABLE" in backend["Environment"]["Variables"]


def test_the_package_of_the_bundle_lies_beside_the_handlers(shop):
    shop.add()
    resources = shop.resources()
    (act,) = [one for one in of_kind(resources, FUNCTION).values() if one["Handler"] == "lambdas.act.handler"]
    asset = Path(shop.app.outdir) / f"asset.{act['Code']['S3Key'].removesuffix('.zip')}"
    assert (asset / "examples/shop/workflow.py").is_file()
    assert (asset / "lambdas/act.py").is_file()


def test_a_third_agent_of_a_stack_is_refused_by_its_path(shop):
    for name in ("First", "Second"):
        shop.add(name)
    with pytest.raises(InputError, match=r"^Shop/Third: a stack takes 2 agents"):
        shop.add("Third")
    shop.add("Third", scope=cdk.Stack(shop.app, "Other"))


@pytest.mark.parametrize(
    ("props", "sentence"),
    [
        ({"oidc_isuer": "https://x.example"}, "a stage has no such choice, did you mean oidc_issuer"),
        ({"exec_image": "asset"}, "exec_image: an agent has the prop programs for it"),
        ({"model_secret_arn": "arn:x"}, "model_secret_arn: an agent has the prop model_secret for it"),
        ({"tags": {"team": "shop"}}, "tags: an app has cdk.Tags.of(agent).add(…) for it"),
        ({"exec_tasks": True}, "exec_tasks: `stepline up` chooses it for the local stage"),
        ({"bundle": "nowhere.agent"}, "there is no module nowhere.agent"),
        ({"issuer": "http://login.example"}, "oidc_issuer: got 'http://login.example', takes"),
        ({"log_retention": cdk.Duration.days(2)}, "log_retention_days: got 2, takes"),
        ({"page_domain": "chat.example.com"}, "page_domain and page_certificate_arn: got the first alone"),
        ({"shift": "canary", "alarms": False}, "shift and alarms: got 'canary' and false"),
        ({"exec_vpc": "vpc-0a1b2c3d", "programs": True}, "exec_vpc and exec_subnets: got the first alone"),
        ({"stage": "local"}, "endpoint: got '' on stage local"),
    ],
)
def test_props_that_no_agent_can_have_end_in_a_sentence_with_its_path(shop, props, sentence):
    with pytest.raises(InputError) as refused:
        shop.add(**props)
    assert str(refused.value).startswith("Shop/Agent: ")
    assert sentence in str(refused.value)


def test_a_secret_without_its_whole_arn_is_refused(shop):
    secret = secretsmanager.Secret.from_secret_name_v2(shop.stack, "Key", "model")
    with pytest.raises(InputError, match=r"^Shop/Agent: model_secret: got a secret without its whole ARN"):
        shop.add(model_secret=secret)


def test_a_page_that_is_not_built_is_refused(shop, tmp_path):
    with pytest.raises(InputError, match=r"^Shop/Agent: the chat page is not built") as refused:
        shop.add(page=tmp_path)
    assert refused.value.reason == "page_missing"


def test_the_stack_of_the_page_passes_the_rules_of_aws(tmp_path, monkeypatch):
    blocks = (ROOT / "docs/how-to/own-app.md").read_text().split("```python\n")
    assert len(blocks) == 4  # test_own_data.py has the third
    shop = Shop(tmp_path)
    monkeypatch.setattr("stepline_cdk.Agent", partial(Agent, code=shop.code))
    names = {}
    exec(blocks[1].partition("```")[0], names)
    names["ShopStack"](shop.app, "Own")
    own = {"Own/ModelKey/Resource"}  # a secret that rotates is the owner's choice
    assert {place for _, place in shop.findings()} == own


def test_the_overrides_of_the_page_reach_the_template(shop):
    blocks = (ROOT / "docs/how-to/own-app.md").read_text().split("```python\n")
    names = {}
    exec(blocks[2].partition("```")[0], names)
    names["change"](shop.add())
    resources = shop.resources()
    (decide,) = [
        one for one in of_kind(resources, FUNCTION).values() if one["FunctionName"].endswith("decide")
    ]
    assert decide["MemorySize"] == 1024
    (bucket,) = of_kind(resources, "AWS::S3::Bucket").values()
    assert bucket["MetricsConfigurations"] == [{"Id": "all"}]
    (machine,) = of_kind(resources, "AWS::StepFunctions::StateMachine").values()
    assert {"Key": "team", "Value": "shop"} in machine["Tags"]


def test_an_agent_has_a_typed_prop_for_each_choice_of_a_stage():
    spelled = {tuple: Sequence[str], Mapping: Mapping[str, Any]}
    kinds = {
        name: get_origin(field.annotation) or field.annotation for name, field in Stage.model_fields.items()
    }
    others = {*PROPS, *OF_CDK, *OF_EMULATOR}
    assert get_type_hints(ChoiceProps) == {
        name: spelled.get(kind, kind) for name, kind in kinds.items() if name not in others
    }


def test_a_metric_has_the_dimensions_of_the_agents_functions(shop):
    agent = shop.add()
    agent.metric("TurnsFailed").create_alarm(shop.stack, "Failed", threshold=1, evaluation_periods=1)
    resources = shop.resources()
    (alarm,) = of_kind(resources, "AWS::CloudWatch::Alarm").values()
    assert (alarm["Namespace"], alarm["MetricName"]) == ("Stepline", "TurnsFailed")
    dimensions = {one["Name"]: one["Value"] for one in alarm["Dimensions"]}
    assert dimensions["stage"] == variables_of(resources, "act")["STEPLINE_STAGE"]
    with pytest.raises(InputError, match=r"^Shop/Agent: metric: got 'TurnFailed', takes TurnsFailed$"):
        agent.metric("TurnFailed")


def test_tags_and_a_boundary_of_the_owner_reach_each_role(shop):
    agent = shop.add(programs=True)
    cdk.Tags.of(agent).add("team", "shop")
    boundary = iam.ManagedPolicy.from_managed_policy_name(shop.stack, "Boundary", "boundary")
    iam.PermissionsBoundary.of(agent).apply(boundary)
    roles = of_kind(shop.resources(), "AWS::IAM::Role").values()
    assert len(roles) > 15
    assert all({"Key": "team", "Value": "shop"} in one["Tags"] for one in roles)
    assert all("boundary" in json.dumps(one["PermissionsBoundary"]) for one in roles)


def test_the_tokens_of_a_pool_of_the_owner_are_trusted(shop):
    pool = cognito.UserPool(shop.stack, "People")
    client = pool.add_client("Web")
    domain = pool.add_domain("SignIn", cognito_domain=cognito.CognitoDomainOptions(domain_prefix="shop"))
    shop.add(user_pool=pool, user_pool_client=client, page=PAGE, oidc_origins=[domain.base_url()])
    resources = shop.resources()
    variables = variables_of(resources, "authorizer")
    assert "People" in json.dumps(variables["STEPLINE_OIDC_ISSUER"])
    assert "PeopleWeb" in json.dumps(variables["STEPLINE_OIDC_AUDIENCE"])
    assert variables["STEPLINE_TENANT_CLAIM"] == "custom:tenant"
    (upload,) = of_kind(resources, "Custom::SteplinePage").values()
    hosts = json.dumps(upload["Connect"])
    assert "https://cognito-idp." in hosts
    assert ".auth." in hosts
    assert len(of_kind(resources, "AWS::Cognito::UserPool")) == 1


def test_a_pool_without_its_client_or_with_another_audience_is_refused(shop):
    pool = cognito.UserPool(shop.stack, "People")
    client = pool.add_client("Web")
    for name, props in (("A", {}), ("B", {"user_pool_client": client, "oidc_audience": "other"})):
        with pytest.raises(InputError, match=r": user_pool, user_pool_client and issuer: takes"):
            shop.add(name, user_pool=pool, **props)
