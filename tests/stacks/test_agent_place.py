"""The place of an agent in its app: a nested stack, several regions; and the names that follow from it."""

from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from tests.stacks.conftest import cdk
from tests.stacks.test_agent import FUNCTION, Shop, of_kind

ACCOUNT = "111122223333"
BETA, PROD = (cdk.Environment(account=ACCOUNT, region=region) for region in ("eu-west-1", "us-east-1"))


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def resources_of(stack):
    return Template.from_stack(stack).to_json()["Resources"]


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
