"""Agents that give every prop once a value of its own: they synthesise, AWS's rules find nothing, and a stack takes each."""

import inspect
from typing import get_type_hints

import pytest
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Template

from stepline_cdk import Agent
from stepline_cdk.choice.declare import declared
from stepline_cdk.choice.read import read_choices
from stepline_cdk.choice_props import ChoiceProps
from stepline_cdk.stage import Stage
from tests.stacks.conftest import PAGE, cdk
from tests.stacks.empty_layers import code_of
from tests.stacks.stage_choice import IMAGE, other_values
from tests.stacks.test_agent import BUNDLE, Shop
from tests.stacks.test_option_sets import RESOURCES

OWN = {
    name: one.default
    for name, one in inspect.signature(Agent.__init__).parameters.items()
    if one.kind is one.KEYWORD_ONLY
}
"""The props that are no choices, with their defaults."""
CHOICES = other_values(get_type_hints(ChoiceProps))
SAML = ("saml_metadata_url",)
OPENID = ("federation_issuer", "federation_client_id", "federation_secret_arn")
FEDERATION = tuple(name for name in CHOICES if name.startswith(("saml_", "federation_")))
ZONES = ("exec_zones",)
NETWORK = ("exec_vpc", "exec_subnets", "exec_security_groups")


WITH_PAGE = {"page": PAGE, "programs": True}


def of_an_issuer(stack):
    """Users of an issuer; everything that can be the owner's is."""
    vpc = ec2.Vpc(stack, "Net", max_azs=2)
    return {
        "issuer": "https://login.example.com",
        "model_secret": secretsmanager.Secret(stack, "ModelKey"),
        "kms_key": kms.Key(stack, "Data", enable_key_rotation=True),
        "table": dynamodb.TableV2.from_table_name(stack, "Rows", "rows"),
        "bucket": s3.Bucket.from_bucket_name(stack, "Files", "company-files"),
        "removal_policy": cdk.RemovalPolicy.RETAIN,
        "log_retention": cdk.Duration.days(90),
        "page": PAGE,
        "programs": IMAGE,
        "stage": "shop",
        "vpc": vpc,
        "vpc_subnets": ec2.SubnetSelection(one_per_az=True, subnets=vpc.private_subnets[:1]),
        "security_groups": [ec2.SecurityGroup(stack, "Group", vpc=vpc)],
    }


def of_a_pool(stack):
    """Users of a pool of the owner; data is kept, in a table that was restored."""
    pool = cognito.UserPool(stack, "People")
    client = pool.add_client("Web")
    return {**WITH_PAGE, "user_pool": pool, "user_pool_client": client, "keep_data": True}


def of_a_company(stack):
    """Users of a company's provider, in a pool that the agent makes."""
    return WITH_PAGE


AGENTS = {
    "issuer": (of_an_issuer, (*FEDERATION, *ZONES, "table_name")),
    "pool": (of_a_pool, (*FEDERATION, *ZONES, "oidc_audience")),
    "saml": (of_a_company, (*OPENID, *NETWORK)),
    "openid": (of_a_company, (*SAML, *NETWORK)),
}
"""As few as possible, since these exclude each other: props of their own, and the choices that they cannot have."""


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """What AWS's rules find in an app of these agents, each in a stack, one of them in a `cdk.Stage`; and their props."""
    folder = tmp_path_factory.mktemp("every")
    shop = Shop(folder)
    code = code_of(Stage(python=CHOICES["python"]), folder / "other")
    made = {}
    for name, (props_of, without) in AGENTS.items():
        scope = cdk.Stage(shop.app, "Beta") if name == "issuer" else shop.app
        stack = cdk.Stack(scope, name.title())
        own = {"bundle": BUNDLE, "code": code, **props_of(stack)}
        choices = read_choices(Stage, {key: text for key, text in CHOICES.items() if key not in without})
        made[shop.add(scope=stack, **own, **choices)] = own, choices
    return shop.findings(), made


def test_every_prop_has_in_one_of_them_a_value_that_is_not_its_default(every):
    _, made = every
    given = set()
    for agent, (own, choices) in made.items():
        given |= {name for name, value in own.items() if value != OWN[name]}
        chosen = dict(agent._choices)
        given |= {
            name
            for name in choices
            if chosen[name] != declared(Stage.model_fields[name]).make_default(chosen)
        }
    assert given == OWN.keys() | get_type_hints(ChoiceProps).keys()


def test_the_rules_of_aws_find_nothing_in_any_of_them(every):
    findings, made = every
    ours = tuple(f"{agent.node.path}/" for agent in made)
    assert {(rule, place) for rule, place in findings if place.startswith(ours)} == set()


def test_a_stack_takes_each_of_them_beside_what_it_has(every):
    _, made = every
    stacks = [cdk.Stack.of(agent) for agent in made]
    sizes = {one.node.path: len(Template.from_stack(one).to_json()["Resources"]) for one in stacks}
    assert len(sizes) == len(AGENTS)
    assert max(sizes.values()) <= RESOURCES
