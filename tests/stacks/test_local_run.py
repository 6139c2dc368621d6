"""An agent in an app of someone else as the local stage runs it."""

import json

import pytest
from aws_cdk.assertions import Template

from stepline.errors import InputError
from stepline.local.install.agent_words import CONTEXT
from stepline_cdk import Agent
from stepline_cdk.testing import local_app
from tests.stacks.conftest import PAGE, cdk
from tests.stacks.role import listed

BUNDLE = "examples.shop"
IN_AWS = {
    "page": PAGE,
    "keep_data": True,
    "alarms": True,
    "snap_start": True,
    "av": "guardduty",
    "programs": True,
}
"""Props that have no effect on the emulator, which lacks what they choose."""


def agent_of(stack, name, agent=None):
    """The value of an output of one agent."""
    return Template.from_stack(stack).to_json()["Outputs"][f"{agent or 'Agent'}{name}"]["Value"]


def functions_of(stack):
    found = Template.from_stack(stack).find_resources("AWS::Lambda::Function").values()
    return {one["Properties"]["FunctionName"]: one["Properties"] for one in found}


def test_it_has_the_name_of_the_local_stage_and_no_part_that_the_emulator_lacks():
    stack = cdk.Stack(local_app(), "Shop")
    agent = Agent(stack, "Agent", bundle=BUNDLE, max_iterations=7, **IN_AWS)
    functions = functions_of(stack)
    assert agent_of(stack, "SteplineAgent") == "local"
    assert agent_of(stack, "Bundle") == BUNDLE
    assert functions["stepline-local-decide"]["Environment"]["Variables"]["AI_REACT_MAX_ITERATIONS"] == "7"
    assert {one["Runtime"] for one in functions.values()} == {"provided.al2023"}
    assert agent.page_url == ""
    template = Template.from_stack(stack)
    for kind in (
        "AWS::CloudFront::Distribution",
        "AWS::CloudWatch::Alarm",
        "AWS::ECS::Cluster",
        "AWS::Cognito::UserPool",
    ):
        template.resource_count_is(kind, 0)


@pytest.mark.parametrize(("asked", "run"), [("", "First"), ("Shop/Second", "Second")])
def test_of_two_agents_the_asked_one_is_run_and_the_first_without_a_question(asked, run):
    choices = json.loads(local_app().node.try_get_context(CONTEXT))["choices"]
    app = cdk.App(context={CONTEXT: json.dumps({"agent": asked, "choices": choices})})
    stack = cdk.Stack(app, "Shop")
    for name in ("First", "Second"):
        Agent(stack, name, bundle=BUNDLE)
    found = {name for name in ("First", "Second") if agent_of(stack, "SteplineAgent", name) == "local"}
    assert found == {run}
    pins = {
        json.dumps(listed(one["Properties"].get("Tags")))
        for one in Template.from_stack(stack).find_resources("AWS::ApiGatewayV2::Api").values()
    }
    assert len(pins) == 4


def test_props_that_no_agent_can_have_in_aws_are_refused_here_too():
    with pytest.raises(InputError, match=r"^Shop/Agent: shift and alarms: got"):
        Agent(cdk.Stack(local_app(), "Shop"), "Agent", bundle=BUNDLE, shift="canary")


@pytest.mark.parametrize("text", ["yes", "{}", "[]"])
def test_a_context_that_the_local_stage_did_not_write_is_refused(text):
    stack = cdk.Stack(cdk.App(context={CONTEXT: text}), "Shop")
    with pytest.raises(InputError, match=r"^Shop/Agent: context stepline:local: got") as refused:
        Agent(stack, "Agent", bundle=BUNDLE)
    assert refused.value.reason == "bad_choice"


def test_outputs_within_a_construct_and_a_stage_begin_with_the_place_in_the_stack():
    stack = cdk.Stack(cdk.Stage(local_app(), "Beta"), "Shop")
    Agent(cdk.aws_iam.Group(stack, "Desk"), "Helper", bundle=BUNDLE)
    assert agent_of(stack, "SteplineAgent", "DeskHelper") == "local"
    assert agent_of(stack, "MachineArn", "DeskHelper")
