"""The choices of a stage as people write them: every place and every way is read equally, and a mistake is one sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stepline_cdk.choice.declare import Choices, declared
from stepline_cdk.choice.read import BadChoiceError, choice_name, describe_values, print_choice
from stepline_cdk.choice.record import RECORD_BYTES, compare, render_record
from stepline_cdk.choice.sources import read_stage
from stepline_cdk.stage import GROUPS, Stage

from .conftest import ROOT, Synthesis, cdk

WRITTEN = {
    "alarms": True,
    "snap_start": False,
    "dashboard": True,
    "concurrency": 1000,
    "allowed_origins": ["https://a.example", "https://b.example"],
    "limits": {"user": {"turns_at_once": 3, "usd_day": 2.5}},
    "bundles": {"docs": "bundles.docs", "shop": {"module": "shop", "props": {"a": 1}}},
    "bundle_props": {"react": {"max_iterations": 7}},
    "oidc_issuer": "https://login.example",
    "exec_image": "none",
    "keep_data": False,
}
"""Choices of every type, as JSON and TOML have them."""
TEXTS = {
    "alarms": "True",
    "snap_start": "no",
    "dashboard": "on",
    "concurrency": "1000",
    "allowed_origins": "https://a.example, https://b.example",
    **{name: json.dumps(WRITTEN[name]) for name in ("limits", "bundles", "bundle_props")},
    **{name: WRITTEN[name] for name in ("oidc_issuer", "exec_image")},
    "keep_data": "0",
}
"""The same as the command line and the environment have them."""
FILE = """
# A comment of the project's.
alarms = true
snap_start = false
dashboard = "yes"
concurrency = 1000
allowed_origins = ["https://a.example", "https://b.example"]
oidc_issuer = "https://login.example"
exec_image = "none"
keep_data = false
bundle_props = '{"react": {"max_iterations": 7}}'

[limits.user]
turns_at_once = 3
usd_day = 2.5

[bundles]
docs = "bundles.docs"
shop = {module = "shop", props = {a = 1}}
"""


def from_file(folder, text, name="test", **context):
    (folder / f"{name}.toml").write_text(text)
    return read_stage({"stage": name, **context}, folder=folder).stage


def variables(choices):
    return {f"STEPLINE_CHOICE_{name.upper()}": text for name, text in choices.items()}


def refused(**context):
    with pytest.raises(BadChoiceError) as caught:
        read_stage(context)
    said = str(caught.value)
    assert caught.value.reason == "bad_choice"
    assert "\n" not in said
    return said


def test_every_place_and_every_way_to_write_give_the_same_stage(tmp_path):
    of_json = read_stage({"stage": "test", **WRITTEN}).stage
    assert of_json.alarms
    assert of_json.dashboard
    assert not of_json.snap_start
    assert read_stage({"stage": "test", **TEXTS}).stage == of_json
    assert read_stage({}, environ={"STEPLINE_STAGE": "test", **variables(TEXTS)}).stage == of_json
    assert from_file(tmp_path, FILE) == of_json


def test_the_cdks_context_the_command_line_and_the_file_alone_give_equal_templates(tmp_path):
    """The choices arrive by the CDK's own context, as its command line hands them over."""
    choices = {
        name: WRITTEN[name]
        for name in ("alarms", "dashboard", "concurrency", "limits", "oidc_issuer", "exec_image")
    }
    texts = {name: TEXTS[name] for name in choices}
    (tmp_path / "file").mkdir()
    lines = [f"{name} = {json.dumps(value)}" for name, value in choices.items() if name != "limits"]
    text = "\n".join([*lines, "[limits.user]", "turns_at_once = 3", "usd_day = 2.5"])
    stages = {
        "json": read_stage(cdk.App(context={"stage": "test", **choices}).node.get_all_context()).stage,
        "flags": read_stage(cdk.App(context={"stage": "test", **texts}).node.get_all_context()).stage,
        "toml": from_file(tmp_path / "file", text),
    }
    documents = [Synthesis(stage, tmp_path / name).documents() for name, stage in stages.items()]
    assert documents[0]["loop"]["Resources"]
    assert documents[0] == documents[1] == documents[2]


@pytest.mark.parametrize(
    ("written", "is_on"),
    [
        *[(word, True) for word in (True, 1, "true", "True", "TRUE", "yes", "on", "1", " true ")],
        *[(word, False) for word in (False, 0, "false", "False", "no", "off", "0")],
    ],
)
def test_a_truth_value_is_read_however_it_is_written(written, is_on):
    for name in ("alarms", "snap_start", "dashboard", "bytecode", "exec_public_ip", "socket_access_log"):
        assert getattr(read_stage({name: written}).stage, name) is is_on


def test_a_list_is_a_list_its_json_or_its_items_separated_by_commas():
    for written in (["openid", "email"], '["openid", "email"]', "openid,email", "openid, email,"):
        assert read_stage({"oidc_scopes": written}).stage.oidc_scopes == ("openid", "email")


def test_the_context_precedes_the_environment_that_the_file_and_that_the_default(tmp_path):
    text = 'oidc_audience = "file"\noidc_scopes = "file"\ntenant_claim = "file"\n'
    (tmp_path / "dev.toml").write_text(text)
    environ = variables({"oidc_audience": "environment", "oidc_scopes": "environment"})
    given = read_stage({"oidc_audience": "context"}, environ=environ, folder=tmp_path)
    stage = given.stage
    assert (stage.oidc_audience, stage.oidc_scopes, stage.tenant_claim) == (
        "context",
        ("environment",),
        "file",
    )
    assert stage.project_claim == ""
    assert given.named.keys() == {"oidc_audience", "oidc_scopes", "tenant_claim"}


def test_an_empty_text_names_the_default(tmp_path):
    (tmp_path / "dev.toml").write_text('oidc_issuer = "https://login.example"\n')
    given = read_stage({"oidc_issuer": "", "exec_image": ""}, folder=tmp_path)
    assert (given.stage.oidc_issuer, given.stage.exec_image) == ("", "codebuild")
    assert given.named == {"oidc_issuer": None, "exec_image": None}


def test_each_stage_has_its_own_file(tmp_path):
    (tmp_path / "dev.toml").write_text('oidc_audience = "dev"\n')
    assert read_stage({"stage": "test"}, folder=tmp_path).stage.oidc_audience == "stepline"


def test_settings_of_a_process_are_no_choices_of_a_stage():
    environ = {"STEPLINE_OIDC_ISSUER": "https://other.example", "STEPLINE_INSPECT": "none"}
    assert read_stage({}, environ=environ).stage == Stage()


def test_keys_of_the_cdk_and_of_the_app_are_no_choices():
    keys = {
        "@aws-cdk/core:x": True,
        "aws:cdk:y": 1,
        "availability-zones:z": [],
        "cli-telemetry": False,
        "nag": "true",
    }
    assert read_stage(keys).stage == Stage()


def test_stages_keep_their_data_unless_they_are_for_development_or_choose_otherwise():
    local = {"stage": "local", "endpoint": "http://127.0.0.1:4566"}
    for kind, is_kept in (({}, False), (local, False), ({"stage": "test"}, True), ({"stage": "prod"}, True)):
        assert read_stage(kind).stage.keep_data is is_kept
    assert read_stage({"keep_data": "yes"}).stage.keep_data
    assert not read_stage({"stage": "prod", "keep_data": False}).stage.keep_data


def test_alarms_and_snapshots_follow_kept_data_and_a_dashboard_is_a_choice():
    for choices, are_on in (
        ({}, False),
        ({"keep_data": "true"}, True),
        ({"stage": "test"}, True),
        ({"stage": "test", "keep_data": "false"}, False),
    ):
        stage = read_stage(choices).stage
        assert (stage.alarms, stage.snap_start, stage.dashboard) == (are_on, are_on, False)
        assert stage.inspect == ("admin" if are_on else "owner")


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"alarms": "maybe"}, "alarms: got 'maybe', takes true or false"),
        ({"alarms": 2}, "alarms: got 2, takes true or false"),
        ({"snap_start": []}, "snap_start: got [], takes true or false"),
        ({"concurrency": "many"}, "concurrency: got 'many', takes a whole number, at least 0"),
        ({"concurrency": -1}, "concurrency: got -1, takes a whole number, at least 0"),
        ({"burst": True}, "burst: got true, takes a whole number, at least 0"),
        ({"max_iterations": "0"}, "max_iterations: got '0', takes a whole number, at least 1"),
        ({"tracing": "loud"}, "tracing: got 'loud', takes off, on, text"),
        ({"python": 3.9}, "python: got '3.9', takes 3.12, 3.13, 3.14"),
        ({"limits": "{"}, "limits: got '{', which is not JSON; takes an object, or its JSON"),
        ({"limits": "[]"}, "limits: got '[]', which is not a JSON object; takes an object, or its JSON"),
        (
            {"bundles": {"Docs": "x"}},
            """bundles: got {"Docs": "x"}, which may not have the key 'Docs'; takes an object, or its JSON""",
        ),
        (
            {"oidc_scopes": [1]},
            "oidc_scopes: got [1], takes a list, or text separated by commas",
        ),
        (
            {"exec_zones": "eu-west-1a,x"},
            "exec_zones: got 'eu-west-1a', takes a list, or text separated by commas, each the id of a zone like usw1-az1",
        ),
        (
            {"model_secret_arn": "sk-secret"},
            "model_secret_arn: got a text that is not repeated here, takes the ARN of a secret",
        ),
        (
            {"stage": "Prod"},
            "stage: got 'Prod', takes a small letter, then small letters, digits and dashes, at most 16 characters",
        ),
        (
            {"oidc_isuer": "https://login.example"},
            "oidc_isuer: a stage has no such choice, did you mean oidc_issuer; docs/reference/choices.md lists what it takes",
        ),
        (
            {"oidc-issuer": "https://login.example"},
            "oidc-issuer: a stage has no such choice, did you mean oidc_issuer; docs/reference/choices.md lists what it takes",
        ),
        (
            {"programs": "none"},
            "programs: a stage has no such choice, did you mean exec_image; docs/reference/choices.md lists what it takes",
        ),
        (
            {"name": "x"},
            "name: a stage has no such choice, did you mean stage; docs/reference/choices.md lists what it takes",
        ),
        (
            {"shift": "canary"},
            "shift and alarms: got 'canary' and false, takes alarms=true with it: the shift goes back when an alarm rings",
        ),
        (
            {
                "page": "false",
                "page_domain": "chat.example.com",
                "page_certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/0a",
            },
            "page and page_domain: got false and 'chat.example.com', takes page=true with a domain",
        ),
        (
            {"exec_mode": "none"},
            "exec_mode: got 'none' on stage dev, takes fargate there, since exec_image is codebuild: exec_image=none leaves programs out",
        ),
        ({"exec_cpu": 100}, "exec_cpu: got 100, takes one of 512, 1024, 2048, 4096, 8192, 16384"),
        (
            {"exec_cpu": 4096},
            "exec_memory_mib: got 2048, takes 8192 to 30720 in steps of 1024 with exec_cpu=4096",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_the_choice_what_it_got_and_what_it_takes(choices, said):
    assert refused(**choices) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alarms = maybe\n", "stages/dev.toml: got no TOML ("),
        ('stage = "prod"\n', "stages/dev.toml: got stage, takes choices alone"),
        ('"@aws-cdk/core:x" = true\n', "stages/dev.toml: got @aws-cdk/core:x, takes choices alone"),
        ("alarm = true\n", "alarm: a stage has no such choice, did you mean alarms;"),
    ],
)
def test_a_mistake_of_the_file_is_a_sentence_too(tmp_path, text, said):
    (tmp_path / "dev.toml").write_text(text)
    with pytest.raises(BadChoiceError) as caught:
        read_stage({}, folder=tmp_path)
    assert str(caught.value).startswith(said)


def test_a_mistake_of_the_environment_is_a_sentence_too():
    with pytest.raises(BadChoiceError, match=r"^oidc_isuer: .* oidc_issuer"):
        read_stage({}, environ=variables({"oidc_isuer": "x"}))


def test_a_synthesis_with_a_wrong_choice_ends_with_the_sentence_alone():
    environ = {"STEPLINE_CHOICE_ALARMS": "maybe", "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "error: bad_choice: alarms: got 'maybe', takes true or false\n",
    )


def test_the_text_of_a_choice_reads_as_the_same_value():
    stage = Stage(
        name="test",
        endpoint="",
        model_roles={"*": "claude-opus-5-5", "gate.simple": {"model": "claude-haiku-5-5", "max_tokens": 100}},
        rates={"user": {"reads": 600}},
        prices={"aws": {"transition": 0.00003}},
        approvals={"effect:once": "first_use"},
        cache_minimum_tokens={"m": 7},
        event_source_principals=["arn:aws:iam::111122223333:role/a,b", "arn:aws:iam::111122223333:root"],
        **WRITTEN,
    )
    texts = {choice_name(name): print_choice(getattr(stage, name)) for name in Stage.model_fields}
    assert read_stage(texts).stage == stage


def test_a_record_fits_into_a_standard_parameter_whatever_is_chosen():
    longest = {
        name: tuple(f"https://{word}{'x' * 900}.example" for word in "ab")
        for name in ("allowed_origins", "oidc_origins")
    }
    texts = {
        name: "x" * 900
        for name, field in Stage.model_fields.items()
        if field.annotation is str and not field.metadata and name not in ("endpoint", "oidc_issuer")
    }
    others = {
        choice_name(name): print_choice(getattr(Stage(), name))
        for name in Stage.model_fields
        if name not in ("name", "endpoint", *texts, *longest)
    }
    arn = f"arn:aws:secretsmanager:eu-west-1:111122223333:secret:{'x' * 400}"
    secrets = {name: arn for name in Stage.model_fields if name.endswith("_secret_arn")}
    stage = Stage(
        **{
            **others,
            **texts,
            **secrets,
            "tracing_endpoint": "https://otlp.example",
            "federation_issuer": "https://login.example",
        },
        **longest,
    )
    record = render_record(stage)
    assert len(stage.model_fields_set) > 70
    assert len(record.encode()) <= RECORD_BYTES
    assert json.loads(record)["bundle"].startswith("sha256:")


def test_long_values_are_compared_by_their_digests():
    props = {"a": "b" * 300}
    record = render_record(Stage(bundle_props=props))
    assert json.loads(record)["bundle_props"].startswith("sha256:")
    assert compare(read_stage({"bundle_props": props}), record) == []
    (change,) = compare(read_stage({"bundle_props": {"a": "c"}}), record)
    assert (change.name, change.new, change.is_lost) == ("bundle_props", '{"a": "c"}', False)


def test_a_text_that_would_name_a_parameter_is_recorded_as_its_digest():
    record = json.loads(render_record(Stage(search_corpus="{{ssm:secret}}", bundle="bundles.docs")))
    assert record["search_corpus"].startswith("sha256:")
    assert record["bundle"] == "bundles.docs"


START = ROOT / "start.py"
BARE = [sys.executable, "-S", "-E"]
"""A Python without the packages of this environment, as that of a fresh shell."""


def test_a_plain_deployment_finds_the_environment_of_the_checkout():
    environ = {"STEPLINE_CHOICE_ALARMS": "maybe", "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(
        [*BARE, str(START)], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "error: bad_choice: alarms: got 'maybe', takes true or false\n",
    )


def test_a_plain_deployment_without_an_environment_says_what_makes_it(tmp_path):
    (tmp_path / "start.py").write_bytes(START.read_bytes())
    done = subprocess.run([*BARE, "start.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: environment_missing: ")
    assert done.stderr.endswith("`make synth` makes it\n")


def test_the_cdk_asks_before_it_gives_more_rights():
    settings = json.loads((ROOT / "cdk.json").read_text())
    assert settings["app"] == "python3 start.py"
    assert "requireApproval" not in settings


def test_each_choice_has_a_meaning_and_belongs_to_one_group():
    grouped = [name for group in GROUPS for name in group.model_fields if name in group.__annotations__]
    assert sorted(grouped) == sorted(Stage.model_fields.keys() - Choices.model_fields.keys())
    for name, field in Stage.model_fields.items():
        assert field.description, name
        assert not field.description.endswith("."), name
        assert describe_values(name, field), name
        assert declared(field) is not None


def test_a_choice_cannot_be_changed_after_it_was_read():
    with pytest.raises(ValueError, match="frozen"):
        Stage().alarms = True
