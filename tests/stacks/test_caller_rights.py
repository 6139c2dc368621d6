"""The names by which a caller's rights are scoped are those of the templates."""

import pytest

from stepline.local.cloud.health import STACKS
from stepline.local.cloud.role.caller_rights import FUNCTIONS


@pytest.mark.parametrize("name", ["prod", "built", "dev", "bedrock"])
def test_a_stage_has_no_stack_and_no_function_that_its_deployer_cannot_name(request, name):
    stage = request.getfixturevalue(name)
    documents = stage.documents()
    assert documents.keys() <= set(STACKS)
    named = {
        resource["Properties"]["FunctionName"]
        for document in documents.values()
        for resource in document["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function" and "FunctionName" in resource["Properties"]
    }
    assert named <= {f"stepline-{stage.stage.name}-{function}" for function in FUNCTIONS}


def test_every_named_stack_and_function_exists(prod, built, local):
    stages = (prod, built, local)
    assert set().union(*(stage.documents() for stage in stages)) == set(STACKS)
    made = {
        resource["Properties"].get("FunctionName", "").removeprefix(f"stepline-{stage.stage.name}-")
        for stage in stages
        for document in stage.documents().values()
        for resource in document["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    assert set(FUNCTIONS) <= made
