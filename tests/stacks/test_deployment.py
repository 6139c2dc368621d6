"""The stacks as a whole: what depends on what, and what the CDK's own rules find."""

import json

import pytest
from aws_cdk.assertions import Annotations, Match, Template

from stepline_cdk.code import Code
from stepline_cdk.deployment import Deployment
from stepline_cdk.stage import Stage
from stepline_cdk.state import State

from .conftest import CONTEXT, ROOT, Synthesis, cdk

ORDER = ["edge", "state", "ingress", "exec", "loop", "page"]


def needs(synthesis):
    """The stacks that a stack needs, by its short name."""
    return {
        short(stack.stack_name): {
            short(other.id) for other in stack.dependencies if other.id.startswith("stepline-")
        }
        - {short(stack.stack_name)}
        for stack in synthesis.assembly.stacks
    }


def short(name):
    return name.removesuffix(".assets").rpartition("-")[2]


def test_a_stage_has_the_stacks_it_needs(prod, dev, local, bedrock):
    assert list(prod.templates) == ORDER
    for synthesis in (dev, bedrock):
        assert list(synthesis.templates) == [name for name in ORDER if name != "exec"]
    # The page of this machine is served by it.
    assert list(local.templates) == ["state", "ingress", "loop"]


def test_a_plain_synthesis_holds_the_task_definition_and_builds_its_image(tmp_path):
    plain = Synthesis(Stage(), tmp_path)
    assert list(plain.templates) == ORDER
    (task,) = plain.resources("AWS::ECS::TaskDefinition").values()
    (build,) = plain.resources("Custom::SteplineImage").values()
    for container in task["ContainerDefinitions"]:
        assert build["Tag"] in json.dumps(container["Image"])
    states = json.dumps(plain.resources("AWS::StepFunctions::StateMachine"))
    assert "ExecuteTask" in states


@pytest.mark.parametrize(("image", "said"), [("none", True), ("programs:1", False)])
def test_a_stage_without_programs_says_so(image, said, tmp_path):
    app = cdk.App(outdir=str(tmp_path / "cdk.out"), context=CONTEXT)
    for name in ("deps", "memory"):
        (tmp_path / name / "python").mkdir(parents=True)
    code = Code.for_aws(ROOT, deps=tmp_path / "deps", acting=(tmp_path / "memory",))
    deployment = Deployment(app, Stage(exec_image=image), code=code, packages=())
    found = Annotations.from_stack(deployment.stacks["loop"]).find_info(
        "*", Match.string_like_regexp("runs no programs")
    )
    assert bool(found) is said
    assert (deployment.execution is None) is said


def test_without_a_page_its_stacks_are_left_out(tmp_path):
    bare = Synthesis(Stage(page=False, exec_image="none"), tmp_path)
    assert list(bare.templates) == ["state", "ingress", "loop"]


def test_a_stage_records_the_choices_that_it_was_given_and_no_others(prod, local):
    (record,) = prod.resources("AWS::SSM::Parameter").values()
    assert (record["Name"], record["Tier"], record["Type"]) == (
        "/stepline/prod/choices",
        "Standard",
        "String",
    )
    choices = json.loads(record["Value"])
    assert choices["allowed_origins"] == "https://chat.example"
    assert (choices["tracing"], choices["concurrency"]) == ("on", "1000")
    assert not {"name", "oidc_issuer", "memory"} & choices.keys()
    (record,) = local.resources("AWS::SSM::Parameter").values()
    assert "endpoint" not in json.loads(record["Value"])


def test_choices_that_the_command_read_from_the_account_are_not_recorded(tmp_path):
    app = cdk.App(outdir=str(tmp_path), context=CONTEXT)
    stage = Stage(oidc_issuer="https://login.example", concurrency=1000)
    stack = cdk.Stack(app, "state")
    State(stack, stage, derived=("concurrency",))
    (record,) = Template.from_stack(stack).find_resources("AWS::SSM::Parameter").values()
    assert json.loads(record["Properties"]["Value"]) == {"oidc_issuer": "https://login.example"}


def test_a_stack_depends_only_on_earlier_ones(every_stage):
    for name, needed in needs(every_stage).items():
        assert needed <= set(ORDER[: ORDER.index(name)]), name


def test_each_stack_can_be_deployed_with_its_dependencies_alone(prod):
    assert needs(prod) == {
        "edge": set(),
        "state": {"edge"},
        "ingress": {"edge", "state"},
        "exec": set(),
        "loop": {"state", "ingress", "exec"},
        "page": {"edge", "state", "ingress"},
    }


def test_no_resource_leads_back_to_itself(every_stage):
    for name, document in every_stage.documents().items():
        waiting = {
            one: needs_of(resource) & document["Resources"].keys()
            for one, resource in document["Resources"].items()
        }
        while free := {one for one, needed in waiting.items() if not needed}:
            waiting = {one: needed - free for one, needed in waiting.items() if one not in free}
        assert not waiting, name


def needs_of(resource):
    """What must be there before a resource: what it names, and what it says it depends on."""
    depends = resource.get("DependsOn", [])
    return references(resource) | set(depends if isinstance(depends, list) else [depends])


def references(node):
    match node:
        case {"Ref": str() as name}:
            return {name}
        case {"Fn::GetAtt": [name, _]}:
            return {name}
        case dict():
            return {name for value in node.values() for name in references(value)}
        case list():
            return {name for item in node for name in references(item)}
    return set()


def test_the_rules_of_the_cdk_find_nothing(every_stage):
    report = json.loads((every_stage.folder / "validation-report.json").read_text())
    assert _violations(report) == []


def _violations(node):
    if isinstance(node, list):
        return [found for item in node for found in _violations(item)]
    if not isinstance(node, dict):
        return []
    return [*node.get("violations", []), *(found for value in node.values() for found in _violations(value))]


def test_synthesis_warns_only_of_a_missing_key_an_unknown_account_and_kept_uploads_without_a_scan(
    every_stage,
):
    messages = [message for stack in every_stage.assembly.stacks for message in stack.messages]
    warned = {message.id for message in messages if message.level.name != "INFO"}
    stage = every_stage.stage
    expected = {
        "loop": stage.name in ("dev", "built") or (stage.keep_data and stage.av == "none"),
        "ingress": not (stage.concurrency or stage.is_local),
    }
    assert warned == {f"/stepline-{stage.name}-{name}" for name, warns in expected.items() if warns}


def test_no_resource_costs_by_the_hour(every_stage):
    kinds = {
        resource["Type"]
        for document in every_stage.documents().values()
        for resource in document["Resources"].values()
    }
    assert not kinds & {"AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::ElastiCache::ServerlessCache"}
