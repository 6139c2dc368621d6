"""The choices of a stage in AWS: its file in the project, and their comparison with those that it was deployed with."""

import json
from dataclasses import replace

import pytest
from botocore.stub import Stubber

from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.deployment import Deployment, load_deployment, save_deployment
from stepline.local.cloud.stage_choices import (
    RECORD,
    choices_file,
    find_choices,
    read_record,
    write_choices,
)
from tests.unit.local.cloud.recorded_programs import ACCOUNT_ID, REGION, order, refused

ISSUER = "https://login.example"


def deployed_with(account, record, stage="dev"):
    """Record choices as the state stack of a deployed stage does."""
    account.client("ssm").put_parameter(Name=RECORD.format(stage), Value=json.dumps(record), Type="String")


def read(context, stage="dev"):
    return choices_file(context.project, stage).read_text()


@pytest.mark.usefixtures("bootstrapped")
def test_the_file_of_a_new_stage_says_to_be_committed_and_has_the_choices(context, prompts):
    choices = {
        "oidc_issuer": ISSUER,
        "alarms": "true",
        "concurrency": "40",
        "python": "3.13",
        "limits": '{"user": {"usd_day": 5}}',
        "allowed_origins": "https://a.example,https://b.example",
    }
    deploy_stage(order(choices=choices, smoke=False), context)
    text = read(context)
    assert text.startswith("# Choices of stage dev, ")
    for line in (
        f'oidc_issuer = "{ISSUER}"',
        "alarms = true",
        "concurrency = 40",
        'python = "3.13"',
        "usd_day = 5",
    ):
        assert line in text.splitlines()
    assert "wrote stages/dev.toml: commit it" in prompts.text


@pytest.mark.usefixtures("bootstrapped")
def test_a_file_keeps_its_comments_and_is_written_only_if_a_choice_changes(context, prompts):
    file = choices_file(context.project, "dev")
    file.parent.mkdir(parents=True)
    text = "# Ours.\n\nalarms = true  # since June\n\n[limits.user]\nusd_day = 5\n"
    file.write_text(text)
    deploy_stage(order(smoke=False), context)
    assert (read(context), "wrote" in prompts.text) == (text, False)
    deploy_stage(order(choices={"oidc_issuer": ISSUER, "alarms": "false"}, smoke=False), context)
    assert read(context) == text.replace("alarms = true", "alarms = false").replace(
        "June\n", f'June\noidc_issuer = "{ISSUER}"\n'
    )


@pytest.mark.usefixtures("bootstrapped")
def test_no_file_is_made_for_a_stage_without_choices(context):
    deploy_stage(order(smoke=False), context)
    assert not choices_file(context.project, "dev").exists()


@pytest.mark.usefixtures("bootstrapped")
def test_keys_of_the_cdk_stay_on_this_machine(context, account, programs):
    key = "@aws-cdk/core:bootstrapQualifier"
    account.client("ssm").put_parameter(Name="/cdk-bootstrap/ours/version", Value="27", Type="String")
    deploy_stage(order(choices={key: "ours"}, smoke=False), context)
    deploy_stage(order(smoke=False), context)
    assert f"--context {key}=ours" in programs.said("synth")
    assert load_deployment(context.home, "dev").context == {key: "ours"}
    assert not choices_file(context.project, "dev").exists()
    deploy_stage(order(choices={key: ""}, smoke=False), context)
    assert key not in programs.said("synth")


@pytest.mark.usefixtures("bootstrapped")
def test_choices_that_an_earlier_release_saved_move_to_the_file_once(context, prompts):
    known = {"oidc_issuer": ISSUER, "snap_start": "false", "@aws-cdk/core:x": "true"}
    save_deployment(context.home, Deployment(stage="dev", account=ACCOUNT_ID, region=REGION, context=known))
    write_choices(context.project, "dev", {"snap_start": "true"})
    deploy_stage(order(smoke=False), context)
    assert f'oidc_issuer = "{ISSUER}"' in read(context)
    assert "snap_start = true" in read(context)
    assert load_deployment(context.home, "dev").context == {"@aws-cdk/core:x": "true"}
    assert "stages/dev.toml: oidc_issuer; commit it" in prompts.text
    prompts.lines.clear()
    deploy_stage(order(smoke=False), context)
    assert "moved" not in prompts.text


@pytest.mark.usefixtures("bootstrapped")
def test_each_changed_choice_is_shown_with_its_old_and_new_value(context, account, prompts):
    deployed_with(account, {"oidc_issuer": ISSUER, "max_iterations": "15", "cache_ttl_s": "60"})
    choices = {"oidc_issuer": "https://other.example", "max_iterations": "15", "alarms": "true"}
    deploy_stage(order(choices=choices, smoke=False), context)
    shown = [line.strip() for line in prompts.lines if "changes" in line]
    assert shown == [
        f"changes oidc_issuer: {ISSUER} → https://other.example",
        "changes cache_ttl_s: 60 → 300",
        "changes alarms: (default) → true",
    ]


GUARDED = {
    "oidc_issuer": ISSUER,
    "oidc_audience": "api",
    "tenant_claim": "groups",
    "project_claim": "groups",
    "table_name": "stepline-dev-20261126070000",
    "memory": "s3_vectors",
    "model_secret_arn": "arn:aws:secretsmanager:eu-central-1:111122223333:secret:model-AbCdEf",
    "keep_data": "true",
    "exec_image": "none",
    "page": "false",
    "approvals": '{"effect:write": "always"}',
}


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.parametrize("name", GUARDED)
def test_a_deployment_from_another_machine_without_a_guarded_choice_is_refused(
    context, account, programs, prompts, name
):
    deployed_with(account, GUARDED)
    error = refused(
        deploy_stage, order(choices={key: value for key, value in GUARDED.items() if key != name}), context
    )
    assert error.reason == "bad_choice"
    assert f"would change: {name}: {GUARDED[name]} → " in str(error)
    assert "stages/dev.toml" in str(error)
    # It is refused before a question is asked, so `--yes` does not help.
    assert (prompts.questions, programs.verbs) == ([], ["choices"])
    assert not choices_file(context.project, "dev").exists()


@pytest.mark.usefixtures("bootstrapped")
def test_all_forgotten_choices_are_named_in_one_sentence(context, account):
    deployed_with(account, {"oidc_issuer": ISSUER, "memory": "s3_vectors", "cache_ttl_s": "60"})
    said = str(refused(deploy_stage, order(), context))
    assert f"oidc_issuer: {ISSUER} → (none), memory: s3_vectors → embedded;" in said
    assert "cache_ttl_s" not in said
    assert "\n" not in said


@pytest.mark.usefixtures("bootstrapped")
@pytest.mark.parametrize("source", ["command", "empty", "file", "environment"])
def test_a_guarded_choice_may_change_if_a_source_names_it(context, account, programs, source):
    deployed_with(account, {"oidc_issuer": ISSUER})
    choices = {"command": {"oidc_issuer": "https://other.example"}, "empty": {"oidc_issuer": ""}}.get(
        source, {}
    )
    if source == "file":
        write_choices(context.project, "dev", {"oidc_issuer": "https://other.example"})
    if source == "environment":
        programs.choices = {"STEPLINE_CHOICE_OIDC_ISSUER": "https://other.example"}
    deploy_stage(order(choices=choices, smoke=False), context)
    assert programs.verbs[-1] == "deploy"


@pytest.mark.usefixtures("bootstrapped")
def test_a_guarded_choice_that_was_deployed_with_its_default_may_be_left_out(context, account, programs):
    deployed_with(account, {"memory": "embedded", "oidc_audience": "stepline"})
    deploy_stage(order(smoke=False), context)
    assert programs.verbs[-1] == "deploy"


@pytest.mark.usefixtures("bootstrapped")
def test_a_stage_that_an_earlier_release_deployed_is_deployed_with_a_warning(context, prompts):
    deployed = replace(context, is_deployed=lambda _account, stage: stage == "dev")
    deploy_stage(order(smoke=False), deployed)
    assert "was deployed with are not known (an earlier release deployed it)" in prompts.text


def test_without_the_right_to_read_the_record_the_permission_is_named(account):
    with Stubber(account.client("ssm")) as stub:
        stub.add_client_error("get_parameter", "AccessDeniedException", "refused")
        error = refused(read_record, account, "dev")
    assert "allow ssm:GetParameter" in str(error)


def test_the_choices_of_a_stage_are_known_by_its_file_or_its_deployment_from_here(tmp_path, programs):
    def known(context):
        return find_choices(programs, "prod", project=tmp_path, context=context)

    assert known(None) is None
    assert known({})["snap_start"] == "true"
    # As an earlier release saved them, until the next deployment moves them.
    assert known({"snap_start": "false", "@aws-cdk/core:x": "y"})["snap_start"] == "false"
    write_choices(tmp_path, "prod", {"exec_image": "none"})
    assert known(None)["exec_image"] == "none"
