"""The command lines themselves: their refusals and exit codes; and the callers of a deployed stage."""

import json
import socket
import subprocess
import sys

import jwt
import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from stepline.errors import AuthError, InputError
from stepline.local import caller
from stepline.local.cloud import deploy, destroy
from stepline.local.cloud.deployment import Deployment, save_deployment
from stepline.local.command.cli import main
from stepline.local.stage import deployed as stage
from stepline.local.stage.deployed import LocalStage
from stepline.local.stage.issuer import signing as issuer

STAGE = Deployment(
    stage="prod", account="1", region="eu-central-1", outputs={"WebSocketUrl": "wss://far/live"}
)


@pytest.fixture
def home(tmp_path, monkeypatch, aws):
    """Return an empty home that every command uses, in a process without AWS credentials."""
    home = tmp_path / "home"
    for module in (stage, caller):
        monkeypatch.setattr(module, "HOME", home)
    return home


def call(*arguments):
    return CliRunner().invoke(main, arguments)


def test_the_local_stage_is_not_deployed_to_aws(home):
    result = call("deploy", "--stage", "local")
    assert result.exit_code == 1
    assert "stepline up" in result.output


@pytest.mark.parametrize("command", ["deploy", "destroy"])
def test_a_stage_must_be_named(home, command):
    assert call(command).exit_code == 2


def test_without_a_region_the_remedy_is_an_option(home, monkeypatch):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(home / "none"))
    result = call("deploy", "--stage", "dev")
    assert result.exit_code == 1
    assert "--region" in result.output


def test_a_question_without_a_terminal_is_refused(home):
    result = call("deploy", "--stage", "dev", "--region", "eu-central-1")
    assert result.exit_code == 1
    assert "not_confirmed" in result.output
    assert "--yes" in result.output
    assert not (home / "stages/dev.json").exists()


def test_with_json_what_was_deployed_or_stayed_is_one_line(home, monkeypatch):
    monkeypatch.setattr(deploy, "deploy_stage", lambda *_: (STAGE, 3))
    monkeypatch.setattr(destroy, "destroy", lambda *_: ["aws s3 rb s3://left"])
    deployed = call("deploy", "--stage", "prod", "--json")
    assert (deployed.exit_code, json.loads(deployed.stdout)) == (3, msgspec.to_builtins(STAGE))
    gone = call("destroy", "--stage", "prod", "--json")
    assert json.loads(gone.stdout) == {"stage": "prod", "left": ["aws s3 rb s3://left"]}


def test_destroy_refuses_the_local_stage(home):
    result = call("destroy", "--stage", "local", "--yes")
    assert result.exit_code == 1
    assert "bad_stage" in result.output


def test_the_checks_of_an_account_are_lines_with_a_mark(home):
    result = call("doctor", "--aws", "--region", "eu-central-1")
    assert result.exit_code == 1
    marks = {row.split()[1]: row.split()[0] for row in result.output.splitlines() if "→" not in row}
    assert marks["identity"] == "ok"
    assert marks["bootstrap"] == "NO"
    assert marks["model"] == "unknown"


@pytest.mark.parametrize("option", [("--stage", "prod"), ("--profile", "p"), ("--region", "r")])
def test_account_options_need_the_aws_option(home, option):
    result = call("doctor", *option)
    assert result.exit_code == 2
    assert "--aws" in result.output


def test_a_deployed_stage_is_called_with_the_token(home):
    save_deployment(home, STAGE)
    found = caller.find_caller("prod", "ann", token="t0", token_command="")
    assert (found.url, found.user, found.token()) == ("wss://far/live", "ann", "t0")
    assert found.home == home / "stages/prod"


def test_a_token_command_is_asked_at_every_connection(home, tmp_path):
    save_deployment(home, STAGE)
    script = tmp_path / "token.py"
    script.write_text(
        "import pathlib, sys\np = pathlib.Path(sys.argv[1])\np.write_text(p.read_text() + 'x')\nprint(p.read_text())"
    )
    count = tmp_path / "count"
    count.write_text("")
    command = f"{sys.executable} {script} {count}"
    found = caller.find_caller("prod", "ann", token="", token_command=command)
    assert [found.token(), found.token()] == ["x", "xx"]


@pytest.mark.parametrize(("command", "renews"), [("print-token", True), ("", False)])
def test_only_a_command_can_renew_a_connection_and_a_token_cannot_renew_itself(home, command, renews):
    save_deployment(home, replace(STAGE, outputs={**STAGE.outputs, "HttpUrl": "https://api/"}))
    found = caller.find_caller("prod", "ann", token="t0", token_command=command)
    assert (found.api_url, found.renews) == ("https://api/", renews)


def test_a_token_command_reads_none_of_the_typed_input():
    code = (
        "import sys; from stepline.local.caller import run_token_command;"
        "run_token_command(f\"{sys.executable} -c 'import sys; print(1, sys.stdin.read())'\");"
        "print(sys.stdin.read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="a message", capture_output=True, text=True, check=True
    )
    assert done.stdout == "a message\n"


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "print()"])
def test_a_token_command_without_a_token_is_refused(program):
    with pytest.raises(AuthError) as caught:
        caller.run_token_command(f'{sys.executable} -c "{program}"')
    assert caught.value.reason == "no_token"


def test_a_deployed_stage_without_a_token_is_refused(home):
    save_deployment(home, STAGE)
    with pytest.raises(AuthError) as caught:
        caller.find_caller("prod", "ann", token="", token_command="")
    assert caught.value.reason == "no_token"


@pytest.mark.parametrize("outputs", [None, {}])
def test_a_stage_that_is_not_deployed_is_refused_with_the_command_and_the_stages_that_are(home, outputs):
    if outputs is not None:
        save_deployment(home, Deployment(stage="prod", account="1", region="r", outputs=outputs))
    save_deployment(
        home, Deployment(stage="dev", account="1", region="r", outputs={"WebSocketUrl": "wss://dev"})
    )
    with pytest.raises(InputError) as caught:
        caller.find_caller("prod", "ann", token="t0", token_command="")
    assert caught.value.reason == "not_deployed"
    assert str(caught.value).endswith("stepline deploy --stage prod` deploys it; deployed stages: dev")


@pytest.fixture
def endpoint():
    """The address of a stage that answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def local(monkeypatch, endpoint):
    """The stage of this machine."""
    found = LocalStage(
        endpoint=endpoint,
        issuer_url="http://127.0.0.1:2",
        socket_url="ws://127.0.0.1:1/x",
        table="t",
        bucket="b",
        machine_arn="m",
        model_url="",
        fingerprint="",
    )
    monkeypatch.setattr(caller, "load", lambda: found)
    return found


@pytest.mark.parametrize(
    ("words", "groups"),
    [((), None), (("--role", "user"), None), (("--role", "tenant_admin"), ["tenant_admin"])],
)
def test_a_token_of_the_local_stage_names_the_requested_role(home, monkeypatch, local, words, groups):
    home.mkdir()
    monkeypatch.setitem(issuer.sign_token.__kwdefaults__, "home", home)
    printed = call("token", "--user", "ann", *words)
    claims = jwt.decode(printed.stdout.strip(), options={"verify_signature": False})
    assert (claims["sub"], claims.get("cognito:groups")) == ("ann", groups)


def test_without_a_stage_the_local_one_is_called_with_its_own_token(home, local):
    found = caller.find_caller("", "ann", token="ignored", token_command="")
    assert (found.url, found.user, found.home) == (local.socket_url, "ann", home)


def test_without_any_stage_it_says_how_to_get_one(home, monkeypatch):
    monkeypatch.setattr(caller, "load", lambda: None)
    with pytest.raises(InputError) as caught:
        caller.find_stage()
    assert caught.value.reason == "not_deployed"
