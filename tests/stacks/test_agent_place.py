"""The place of an agent in its app: a nested stack, several regions, several `cdk.Stage`s; and the names that follow from it."""

import json
from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from stepline.errors import InputError
from tests.stacks.conftest import PAGE, cdk
from tests.stacks.test_agent import FUNCTION, Shop, of_kind

ACCOUNT = "111122223333"
BETA, PROD = (cdk.Environment(account=ACCOUNT, region=region) for region in ("eu-west-1", "us-east-1"))


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def in_stage(shop, name, env=None, **props):
    """The stack of an agent in a `cdk.Stage` of this name."""
    stack = cdk.Stack(cdk.Stage(shop.app, name, env=env), "Shop")
    shop.add(scope=stack, **props)
    return stack


def resources_of(stack):
    return Template.from_stack(stack).to_json()["Resources"]


def names_of(stack):
    """Each name that a resource has by the template."""
    return {
        (one["Type"], key, json.dumps(value))
        for one in resources_of(stack).values()
        for key, value in one.get("Properties", {}).items()
        if key.endswith("Name") and "stepline" in json.dumps(value)
    }


def test_an_agent_in_two_stages_of_an_app_passes_the_rules_of_aws_with_names_of_its_own_in_each(shop):
    beta, prod = (in_stage(shop, name, page=PAGE) for name in ("Beta", "Prod"))
    assert shop.findings() == set()
    assert len(names_of(beta)) == len(names_of(prod)) > 15
    assert names_of(beta) & names_of(prod) == set()


def test_a_fixed_name_is_that_of_one_agent_in_each_environment(shop):
    stacks = [in_stage(shop, name, env, stage="shop") for name, env in (("Beta", BETA), ("Prod", PROD))]
    for stack in stacks:
        (machine,) = of_kind(resources_of(stack), "AWS::StepFunctions::StateMachine").values()
        assert machine["StateMachineName"] == "stepline-shop-loop"


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ({}, {}, "aws://unknown-account/unknown-region"),
        ({"stage": "Beta"}, {"stage": "Prod"}, "aws://unknown-account/unknown-region"),
        ({"stage": "Beta", "env": BETA}, {"env": BETA}, "aws://111122223333/eu-west-1"),
    ],
)
def test_two_agents_of_one_fixed_name_are_refused_in_one_environment(shop, first, second, place):
    def scope(name, stage="", env=None):
        return cdk.Stack(cdk.Stage(shop.app, stage, env=env) if stage else shop.app, name, env=env)

    shop.add(stage="shop", scope=scope("First", **first))
    with pytest.raises(InputError) as refused:
        shop.add(stage="shop", scope=scope("Second", **second))
    said = f"Second/Agent: stage: got 'shop', which another agent has already in {place}, takes a name of its own, or nothing"
    assert (str(refused.value).removeprefix("Prod/"), refused.value.reason) == (said, "bad_choice")


def test_agents_of_one_name_in_two_regions_have_each_its_own_code(shop):
    stacks = [cdk.Stack(shop.app, env.region, stack_name="Shop", env=env) for env in (BETA, PROD)]
    for stack in stacks:
        # Too long for a variable, so it becomes a file.
        shop.add(scope=stack, bundle_props={"greeting": stack.region * 1000})
    for stack in stacks:
        functions = of_kind(resources_of(stack), FUNCTION).values()
        (act,) = [one for one in functions if one["Handler"] == "lambdas.act.handler"]
        asset = Path(shop.app.outdir) / f"asset.{act['Code']['S3Key'].removesuffix('.zip')}"
        assert any(stack.region * 1000 in path.read_text() for path in asset.rglob("*.json"))


def test_the_name_of_an_agent_depends_on_its_stack_and_its_place_alone(tmp_path):
    def named(number, stack_name):
        shop = Shop(tmp_path / str(number))
        shop.stack = cdk.Stack(shop.app, "Other", stack_name=stack_name)
        shop.add()
        (machine,) = of_kind(shop.resources(), "AWS::StepFunctions::StateMachine").values()
        return machine["StateMachineName"]

    assert named(1, "one") == named(2, "one") != named(3, "two")


def test_an_agent_lives_in_a_nested_stack(shop):
    nested = cdk.NestedStack(shop.stack, "Inner")
    shop.add(scope=nested)
    names = {
        one["FunctionName"]
        for one in of_kind(Template.from_stack(nested).to_json()["Resources"], FUNCTION).values()
    }
    assert len(names) > 10
    assert all(name.startswith("stepline-agent-") for name in names)
    assert shop.findings() == set()
