"""The CDK's command lines, its output folder, and the app's own answer; tests/stacks has the rest."""

import json
import sys

from stepline.local.cloud.program.child import NOT_FOUND, run
from stepline.local.cloud.program.toolkit import (
    read_stacks,
    render_bootstrap,
    render_cost,
    render_deploy,
    render_destroy,
    render_synth,
)
from stepline.local.stage.deployed import install_environment
from tests.unit.local.cloud.recorded_programs import TEMPLATES, write_assembly

ENVIRONMENT = install_environment()


def test_a_stage_is_synthesised_with_its_choices_and_its_name(tmp_path):
    command = render_synth("dev", {"model_roles": '{"*": "a b"}'}, tmp_path, "")
    assert command[1] == "synth"
    assert command[command.index("--context") + 1] == 'model_roles={"*": "a b"}'
    assert "stage=dev" in command
    assert "--profile" not in command


def test_a_profile_is_named_on_every_line(tmp_path):
    lines = [
        render_bootstrap("1", "r", "work"),
        render_synth("dev", {}, tmp_path, "work"),
        render_deploy(tmp_path, tmp_path / "o.json", "work"),
        render_destroy(tmp_path, ["a"], "work"),
    ]
    assert all(line[line.index("--profile") + 1] == "work" for line in lines)


def test_a_bootstrap_of_another_name_stays_that(tmp_path):
    line = render_bootstrap("1", "r", "", qualifier="ours")
    assert line[line.index("--qualifier") + 1] == "ours"


def test_stacks_are_read_in_the_order_in_which_they_need_each_other(tmp_path):
    write_assembly(tmp_path / "cdk.out")
    address, first, second = read_stacks(tmp_path / "cdk.out")
    assert (address.name, address.kept) == ("stepline-dev-edge", ())
    assert (first.name, first.resources, first.kept) == (
        "stepline-dev-state",
        2,
        ("AWS::DynamoDB::GlobalTable",),
    )
    assert (second.name, second.kept) == ("stepline-dev-loop", ())


def test_a_missing_folder_has_no_stacks(tmp_path):
    assert read_stacks(tmp_path / "nothing") == []


def test_the_app_says_what_its_templates_cost_at_rest(tmp_path):
    alarm = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "m"}}
    template = {**TEMPLATES["stepline-dev-state"]["Resources"], "Alarm": alarm}
    (tmp_path / "a.template.json").write_text(json.dumps({"Resources": template}))
    done = run(render_cost(tmp_path), ENVIRONMENT, catch=True)
    assert done.code == 0
    assert done.text.splitlines()[-1].split(maxsplit=1)[0] == "0.10"


def test_a_program_that_is_not_installed_is_an_exit_code():
    done = run(["stepline-has-no-such-program"], ENVIRONMENT, catch=True)
    assert done.code == NOT_FOUND
    assert "not installed" in done.text


def test_the_output_of_a_program_can_be_captured(tmp_path):
    said = run([sys.executable, "-c", "import os; print(os.getcwd())"], ENVIRONMENT, catch=True, cwd=tmp_path)
    assert (said.code, said.text.strip()) == (0, str(tmp_path))
    failed = run([sys.executable, "-c", "raise SystemExit('no')"], ENVIRONMENT, catch=True)
    assert (failed.code, failed.text.strip()) == (1, "no")


def test_the_callers_token_is_for_no_child():
    environment = {**ENVIRONMENT, "STEPLINE_TOKEN": "secret-token"}
    program = "import os; print('STEPLINE_TOKEN' in os.environ)"
    assert run([sys.executable, "-c", program], environment, catch=True).text.strip() == "False"
