"""The state of a stage that is saved between two commands."""

import stat

import pytest

from stepline.errors import InputError
from stepline.local.cloud.deployment import (
    Deployment,
    check_stage,
    delete_deployment,
    fold_choices,
    load_deployment,
    parse_choices,
    read_outputs,
    save_deployment,
)

STAGE = Deployment(stage="dev", account="1", region="eu-central-1", context={"exec_image": "codebuild"})


def test_a_stage_is_found_again(tmp_path):
    save_deployment(tmp_path, STAGE)
    assert load_deployment(tmp_path, "dev") == STAGE
    assert load_deployment(tmp_path, "prod") is None


def test_a_forgotten_stage_is_not(tmp_path):
    save_deployment(tmp_path, STAGE)
    delete_deployment(tmp_path, "dev")
    delete_deployment(tmp_path, "dev")
    assert load_deployment(tmp_path, "dev") is None


def test_only_its_owner_reads_it(tmp_path):
    save_deployment(tmp_path, STAGE)
    assert stat.S_IMODE((tmp_path / "stages/dev.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "stages/dev").stat().st_mode) == 0o700


def test_a_value_may_hold_anything_after_the_first_equals_sign():
    assert parse_choices(('model_roles={"*": "a=b"}',)) == {"model_roles": '{"*": "a=b"}'}


@pytest.mark.parametrize("text", ["oidc_issuer", "=x", "a b=c", "-x=1"])
def test_an_invalid_choice_is_refused(text):
    with pytest.raises(InputError) as caught:
        parse_choices((text,))
    assert caught.value.reason == "bad_choice"


@pytest.mark.parametrize("key", ["stage", "endpoint"])
def test_a_setting_with_its_own_option_is_refused_as_a_choice(key):
    with pytest.raises(InputError) as caught:
        parse_choices((f"{key}=x",))
    assert caught.value.reason == "bad_choice"


def test_choices_are_kept_replaced_and_forgotten():
    known = {"oidc_issuer": "https://old", "exec_image": "codebuild", "snap_start": "false"}
    given = parse_choices(("oidc_issuer=https://new", "exec_image="))
    assert fold_choices(known, given) == {"oidc_issuer": "https://new", "snap_start": "false"}


@pytest.mark.parametrize("name", ["local", "", "Dev", "1dev", "a" * 17, "dev_two", "../x"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InputError) as caught:
        check_stage(name)
    assert caught.value.reason == "bad_stage"


@pytest.mark.parametrize("name", ["dev", "prod", "a", "dev-two", "a" * 16])
def test_a_valid_stage_name_is_returned_unchanged(name):
    assert check_stage(name) == name


def test_outputs_for_other_stacks_are_left_out(tmp_path):
    path = tmp_path / "outputs.json"
    path.write_text(
        '{"a": {"TableName": "t", "ExportsOutputRefX": "x", "PublishOutputRefX": "x"}, "b": {"WebSocketUrl": "wss://x"}}'
    )
    assert read_outputs(path) == {"TableName": "t", "WebSocketUrl": "wss://x"}
