"""An agent in a stack of an app of the user's: found by the stack's outputs, and what commands do with it."""

from dataclasses import replace

import msgspec
import pytest
from botocore.stub import Stubber

from stepline.errors import InputError
from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.deployed_agent import find_deployed_agent
from stepline.local.cloud.deployment import list_stages, load_deployment, save_found
from stepline.local.cloud.destroy import destroy
from stepline.local.cloud.health import find_resources, find_stacks, health
from stepline.local.cloud.rollback import roll_stage_back
from stepline.local.command import cloud, secrets
from stepline.local.secret_desk import SecretDesk
from tests.unit.local.cloud.recorded_programs import order, refused
from tests.unit.local.cloud.test_health import described, listed

NAME = "agent-0123456789"
NOW = "2026-11-29T10:00:00+00:00"


OUTPUTS = {
    "Socket": "wss://mine",
    "AgentSteplineAgent": NAME,
    "AgentWebSocketUrl": "wss://x",
    "AgentTableName": "gone",
    "DeskAgentSteplineAgent": "desk",
}


@pytest.fixture
def shop(account):
    """An account with a stack that has resources of its owner's and two agents, asked for any number of times."""
    with Stubber(account.client("cloudformation")) as stub:
        for _ in range(2):
            stub.add_response(
                "describe_stacks", {"Stacks": [described("Shop", **OUTPUTS)]}, {"StackName": "Shop"}
            )
        resources = [
            listed(name, name.lower(), "AWS::SQS::Queue")
            for name in ("AgentLoopDead1", "AgentLoops", "DeskAgentLoopDead1", "Agent2LoopDead")
        ]
        stub.add_response("list_stack_resources", {"StackResourceSummaries": resources})
        yield account


def test_it_has_its_own_name_and_its_own_outputs(shop):
    found = find_deployed_agent(shop, "Shop", "Agent", NOW)
    assert (found.stage, found.stack, found.prefix) == (NAME, "Shop", "Agent")
    assert found.outputs == {"SteplineAgent": NAME, "WebSocketUrl": "wss://x", "TableName": "gone"}
    assert find_deployed_agent(shop, "Shop", "Desk/Agent", NOW).stage == "desk"


def test_a_stack_that_does_not_exist_has_no_agent(account):
    with Stubber(account.client("cloudformation")) as stub:
        stub.add_client_error("describe_stacks", "ValidationError", "does not exist")
        assert refused(find_deployed_agent, account, "Nowhere", "", NOW).reason == "agent_not_found"


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("", "has the agents Agent, DeskAgent: name one of them with --agent"),
        ("Other", "has the agents Agent, DeskAgent"),
    ],
)
def test_a_question_that_two_agents_answer_or_none_is_refused(shop, agent, said):
    with pytest.raises(InputError, match=said) as error:
        find_deployed_agent(shop, "Shop", agent, NOW)
    assert error.value.reason == "agent_not_found"


@pytest.fixture
def known(shop, context):
    found = find_deployed_agent(shop, "Shop", "Agent", NOW)
    save_found(context.home, found)
    return found


def test_its_resources_are_those_of_its_parts(shop, known):
    (stack,) = find_stacks(shop, known.stage, known)
    assert stack.outputs == known.outputs
    assert [one.logical_id for one in find_resources(shop, [stack])] == ["AgentLoopDead1", "AgentLoops"]


def test_its_health_names_the_command_of_its_app(shop, known):
    checks = {check.name: check for check in health(shop, known.stage, known)}
    assert checks["stacks"].ok
    assert checks["outputs"].remedy == "cdk deploy Shop"
    assert "stepline deploy" not in "".join(check.remedy for check in checks.values())


def test_commands_take_it_as_a_stage(context, known):
    assert list_stages(context.home) == [NAME]
    assert load_deployment(context.home, NAME) == known


def test_another_stage_of_its_name_is_not_forgotten(context, known):
    with pytest.raises(InputError, match="this machine knows another stage") as error:
        save_found(context.home, msgspec.structs.replace(known, stack="Other"))
    assert error.value.reason == "bad_stage"
    save_found(context.home, known)
    assert load_deployment(context.home, NAME) == known


def test_it_is_deployed_and_deleted_by_its_app_alone(context, known):
    for command in (
        lambda: deploy_stage(order(stage=NAME), context),
        lambda: destroy(order(stage=NAME), context, lambda _: True),
    ):
        with pytest.raises(InputError, match="an agent in the stack Shop of an app of yours") as error:
            command()
        assert error.value.reason == "bad_stage"


def test_its_secrets_can_be_opened(context, shop, known, monkeypatch):
    monkeypatch.setattr(cloud, "make_desk", lambda **_: replace(context, open_account=lambda *_: shop))
    assert isinstance(secrets._open_desk(NAME, "", ""), SecretDesk)


def test_its_versions_can_be_rolled_back(context, shop, known):
    context = replace(context, open_account=lambda *_: shop)
    assert "no version is recorded" in str(refused(roll_stage_back, order(stage=NAME), context))
