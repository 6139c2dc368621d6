import json

import pytest

from stepline.errors import DependencyError
from stepline.local.repair import plan_stale, read_origins, read_templates

TOPIC = {"Type": "AWS::SNS::Topic"}
CORS = {"AllowOrigins": ["https://chat.example"], "AllowMethods": ["POST"], "MaxAge": 600}


def stack(name, made_at):
    return {"StackName": name, "CreationTime": made_at}


def test_stacks_that_the_app_no_longer_has_go_newest_first_and_no_others_do():
    found = [
        stack("stepline-local-state", 1),
        stack("stepline-local-base", 2),
        stack("stepline-local-runtime", 3),
        stack("stepline-prod-runtime", 4),
        stack("CDKToolkit", 0),
    ]
    wanted = {"stepline-local-state", "stepline-local-loop"}
    assert plan_stale(found, wanted) == ["stepline-local-runtime", "stepline-local-base"]


def test_an_assembly_says_which_stacks_the_app_has(tmp_path):
    template = {"Resources": {"Topic": TOPIC}}
    (tmp_path / "a.json").write_text(json.dumps(template))
    artifacts = {
        "assets": {"type": "cdk:asset-manifest"},
        "a": {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": "a.json", "stackName": "stepline-local-a"},
        },
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    assert list(read_templates(tmp_path)) == [("stepline-local-a", template)]


def test_an_assembly_without_stacks_is_no_reason_to_delete_all(tmp_path):
    with pytest.raises(DependencyError, match="no stack"):
        list(read_templates(tmp_path))


def test_an_api_answers_the_origins_that_its_template_says():
    api = {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "doors", "CorsConfiguration": CORS}}
    closed = {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "others"}}
    template = {"Resources": {"A": api, "B": closed, "C": TOPIC}}
    assert read_origins(template) == {"doors": CORS}
