"""The settings' choices about programs, and the variables of a remote supervisor."""

import pytest

from stepline.bootstrap.agent_choice import execution_runtime
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.descriptor_set import decode_payload, parse_descriptors
from stepline.errors import InputError, ToolError
from stepline.settings import Settings, handed_on

BUNDLES = """
bundles:
  default_bundle_id: demo
  items:
    - id: demo
      config:
        execution:
          runtime: {mode: process, memory: 1g}
"""


def settings(**variables):
    return Settings.from_env({"EXEC_RUNTIME_MODE": "docker"} | variables)


def test_a_deployment_that_runs_no_programs_offers_the_model_none():
    app = in_memory(Settings.from_env({}))
    assert execution_runtime(app.settings) is None
    assert app.agent.execution is None
    assert "exec_tools.execute_code_python" not in app.agent.system
    assert "# Programs" not in app.agent.system


def test_the_model_gets_packages_and_tools_if_programs_run():
    app = in_memory(settings(STEPLINE_EXEC_PACKAGES="numpy,pandas"))
    assert app.agent.execution.profile.backend == "docker"
    assert app.agent.execution.bundle == "bundles.default"
    assert "numpy, pandas" in app.agent.system
    *tools, pdf = app.agent.execution.tools[:5]
    assert tools == ["react.read", "web_tools.web_search", "web_tools.web_fetch", "ctx_tools.fetch_ctx"]
    assert pdf == "rendering_tools.write_pdf"
    assert "ctx_tools.fetch_ctx" not in app.agent.callable_ids


def test_the_properties_override_the_bundles_descriptor():
    descriptors = parse_descriptors({"bundles": BUNDLES})
    profile, limits = execution_runtime(settings(), descriptors)
    assert (profile.backend, limits.memory_bytes) == ("process", 1 << 30)
    props = '{"execution": {"runtime": "docker"}}'
    profile, _ = execution_runtime(settings(STEPLINE_BUNDLE_PROPS=props), descriptors)
    assert profile.backend == "docker"


def test_a_tool_called_by_a_program_reads_the_descriptors(tmp_path):
    (tmp_path / "secrets.yaml").write_text("search: {key: s3cret}\n")
    (tmp_path / "assembly.yaml").write_text("region: eu\n")
    app = in_memory(settings(PLATFORM_DESCRIPTORS_DIR=str(tmp_path)))
    assert app.descriptors.get_secret("search.key") == "s3cret"
    assert app.descriptors.get_plain("region") == "eu"
    with pytest.raises(ToolError) as caught:
        app.descriptors.get_secret("search")
    assert caught.value.reason == "secret_missing"
    assert "s3cret" not in repr(app)


def test_a_remote_supervisor_gets_only_our_settings_and_access_to_aws():
    handed = handed_on(
        {
            "STEPLINE_TABLE": "t",
            "STEPLINE_REDIS_URL": "rediss://:s3cret@cache",
            "STEPLINE_REDIS_SECRET_ARN": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:redis",
            "AWS_REGION": "eu-west-1",
            "HOME": "/root",
            "GITHUB_TOKEN": "x",
            "PATH": "/bin",
        }
    )
    assert handed == {"STEPLINE_TABLE": "t", "AWS_REGION": "eu-west-1"}


FARGATE = {
    "EXEC_RUNTIME_MODE": "fargate",
    "FARGATE_CLUSTER": "ours",
    "FARGATE_TASK_DEFINITION": "exec",
    "FARGATE_SUBNETS": "subnet-1,subnet-2",
    "STEPLINE_MACHINE_ARN": "arn:aws:states:eu-west-1:123456789012:stateMachine:loop",
    "STEPLINE_TABLE": "the-table",
    "STEPLINE_BUCKET": "the-bucket",
    "ANTHROPIC_API_KEY": "sk-model",
    "STEPLINE_MODEL_SECRET_ARN": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:model",
}


def test_the_location_of_tasks_comes_from_settings_and_bundle():
    props = '{"execution": {"runtime": {"fargate": {"cluster": "theirs", "region": "eu-west-1"}}}}'
    app = in_memory(settings(**FARGATE, STEPLINE_BUNDLE_PROPS=props))
    execution = app.agent.execution
    assert execution.places == {"remote"}
    assert (execution.profile.task.cluster, execution.profile.task.subnets) == (
        "theirs",
        ("subnet-1", "subnet-2"),
    )
    assert execution.profile.task.container_name == "supervisor"


def test_a_profile_of_another_region_is_refused():
    props = '{"execution": {"runtime": {"region": "us-east-1"}}}'
    with pytest.raises(InputError) as caught:
        execution_runtime(settings(**FARGATE, STEPLINE_BUNDLE_PROPS=props))
    assert caught.value.reason == "bad_setting"


@pytest.mark.parametrize("mode", ["process", "docker"])
def test_both_local_modes_run_programs_inline_and_not_in_tasks(mode):
    app = in_memory(settings(EXEC_RUNTIME_MODE=mode))
    assert app.agent.execution.places == {"inline"}


def test_a_profile_may_send_programs_to_tasks_if_both_placements_exist():
    props = '{"execution": {"runtime": {"mode": "fargate"}}}'
    given = {**FARGATE, "EXEC_RUNTIME_MODE": "docker", "STEPLINE_BUNDLE_PROPS": props}
    execution = in_memory(settings(**given)).agent.execution
    assert execution.places == {"inline", "remote"}
    assert execution.profile.backend == "fargate"
    assert execution.settings


def test_a_task_gets_the_active_bundles_descriptors_and_no_access_settings(tmp_path):
    (tmp_path / "secrets.yaml").write_text("search: {key: s3cret}\n")
    (tmp_path / "bundles.yaml").write_text(TWO_BUNDLES)
    app = in_memory(settings(**FARGATE, PLATFORM_DESCRIPTORS_DIR=str(tmp_path)))
    execution = app.agent.execution
    texts = decode_payload(execution.descriptors())
    assert texts["secrets"] == "search: {key: s3cret}\n"
    assert "other" not in texts["bundles"]
    there = Settings.from_env(execution.settings)
    assert (there.exec_mode, there.stage) == ("fargate", app.settings.stage)
    assert (there.table, there.bucket, there.machine_arn, there.model_secret_arn) == ("", "", "", "")
    handed = str(dict(execution.settings))
    assert not any(word in handed for word in ("the-table", "the-bucket", "sk-model", "secretsmanager"))
    assert "s3cret" not in repr(execution)


TWO_BUNDLES = """
bundles:
  default_bundle_id: demo
  items:
    - {id: demo, config: {a: 1}}
    - {id: other, config: {b: 2}}
"""
