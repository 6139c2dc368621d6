from dataclasses import fields
from pathlib import Path

import aws_cdk as cdk
import pytest

from stacks.stage import Stage


def read(**context):
    return Stage.from_context(cdk.App(context=context).node)


def test_the_default_stage_is_no_local_one():
    assert read() == Stage(name="dev", exec_image="none")


def test_a_stage_is_what_its_context_says():
    stage = read(
        stage="test",
        allowed_origins="https://a.example,https://b.example",
        model_roles='{"decide": "m"}',
        burst="7",
    )
    assert stage.allowed_origins == ("https://a.example", "https://b.example")
    assert stage.model_roles == {"decide": "m"}
    assert stage.burst == 7


def test_an_image_makes_programs_run_in_tasks():
    assert read(exec_image="codebuild").has_tasks
    assert not read().has_tasks
    assert not read(stage="prod", exec_image="none").has_tasks
    local = {"stage": "local", "endpoint": "http://127.0.0.1:4566"}
    assert read(**local, exec_mode="docker").executes
    assert read(**local, exec_mode="fargate", exec_image="programs:1").has_tasks


def test_alarms_are_on_in_prod_unless_refused():
    assert read(stage="prod").alarms
    assert not read(stage="prod", alarms="false").alarms
    assert not read(stage="dev").alarms


def test_snapstart_is_on_in_prod_unless_refused():
    assert read(stage="prod").snap_start
    assert not read(stage="prod", snap_start="false").snap_start
    assert not read(stage="dev").snap_start


@pytest.mark.parametrize("name", ["", "Prod", "1st", "a" * 17, "a_b"])
def test_a_name_that_fits_no_resource_is_refused(name):
    with pytest.raises(ValueError, match="stage"):
        Stage(name=name)


def test_only_the_local_stage_has_an_endpoint():
    with pytest.raises(ValueError, match="stepline up"):
        Stage(name="local")
    with pytest.raises(ValueError, match="stepline up"):
        Stage(name="prod", endpoint="http://127.0.0.1:4566")


def test_programs_run_beside_the_functions_on_the_local_stage_only():
    assert Stage(name="local", endpoint="http://127.0.0.1:4566", exec_mode="docker").executes
    assert not Stage(name="prod").executes
    for name, endpoint, mode in (
        ("prod", "", "process"),
        ("dev", "", "docker"),
        ("local", "http://127.0.0.1:4566", "vm"),
    ):
        with pytest.raises(ValueError, match="cannot run programs"):
            Stage(name=name, endpoint=endpoint, exec_mode=mode)


def test_every_choice_of_a_stage_is_documented():
    page = (Path(__file__).parents[2] / "docs/how-to/deploy.md").read_text()
    for field in fields(Stage):
        assert f"`{'stage' if field.name == 'name' else field.name}`" in page, field.name
