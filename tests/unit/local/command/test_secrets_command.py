"""Secrets of a stage: a value goes in by standard input and never comes out; functions read it."""

import json

import pytest
from click.testing import CliRunner

from stepline.adapters.aws.secret import StoredSecrets
from stepline.adapters.memory.clock import MemoryClock
from stepline.bundle.descriptor_set import parse_descriptors
from stepline.errors import DependencyError, InputError
from stepline.local import caller
from stepline.local.command import secrets as command
from stepline.local.command.cli import main
from stepline.local.secret_desk import NAMES_MAX, SecretDesk
from stepline.local.stage import deployed
from stepline.model.ids import utc
from stepline.ports.descriptor import name_stage_secret
from tests.unit.local.cloud.recorded_programs import REGION, session

SECRET = "hunter2-hunter2"
STAGE = ("--stage", "prod", "--region", REGION)


@pytest.fixture
def client(aws):
    return session(REGION).client("secretsmanager")


@pytest.fixture
def desk(client):
    return SecretDesk(client, "prod", MemoryClock())


@pytest.fixture
def home(tmp_path, monkeypatch, aws):
    for module in (deployed, caller):
        monkeypatch.setattr(module, "HOME", tmp_path / "home")
    monkeypatch.setattr(
        command,
        "_open_desk",
        lambda stage, *_: SecretDesk(session(REGION).client("secretsmanager"), stage, MemoryClock()),
    )


def call(*arguments, value=None):
    result = CliRunner().invoke(main, arguments, input=value)
    assert SECRET not in result.output
    return result


def read(client, path, bundle=""):
    class Stored:
        def read(self, owner):
            name = name_stage_secret("prod", owner)
            try:
                return client.get_secret_value(SecretId=name)["SecretString"]
            except client.exceptions.ResourceNotFoundException:
                return ""

    return parse_descriptors({}, bundle_id=bundle, stored=Stored()).get_secret(path)


def test_a_value_comes_from_standard_input_and_the_list_has_names_and_dates_alone(home, client):
    assert call("secrets", "set", "crm.token", *STAGE, value=f"{SECRET}\n").exit_code == 0
    assert call("secrets", "set", "token", "--bundle", "default", *STAGE, value=SECRET).exit_code == 0
    assert (
        call("secrets", "set", "token", "--bundle", "shop", *STAGE, value=f"{SECRET}-of-shop").exit_code == 0
    )
    assert read(client, "crm.token") == read(client, "b:token") == SECRET
    assert read(client, "b:token", "shop") == f"{SECRET}-of-shop"
    listed = call("secrets", "list", *STAGE, "--json")
    assert [json.loads(line) for line in listed.stdout.splitlines()] == [
        {"bundle": bundle, "name": name, "set_at": utc(MemoryClock().now())}
        for bundle, name in (("", "crm.token"), ("default", "token"), ("shop", "token"))
    ]
    assert [line.split()[:2] for line in call("secrets", "list", *STAGE).stdout.splitlines()] == [
        ["-", "crm.token"],
        ["default", "token"],
        ["shop", "token"],
    ]


def test_a_value_of_several_lines_keeps_all_but_the_last_line_break(home, client):
    call("secrets", "set", "key", *STAGE, value="-----BEGIN\nabc\n-----END\n")
    assert read(client, "key") == "-----BEGIN\nabc\n-----END"


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (("set", "token"), ""),
        (("set", "a b"), SECRET),
        (("set", "b:token"), SECRET),
        (("set", "token", "--bundle", "A b"), SECRET),
        (("remove", "gone"), None),
    ],
)
def test_a_wrong_name_or_an_empty_value_is_refused(home, client, arguments, value):
    result = call("secrets", *arguments, *STAGE, value=value)
    assert result.exit_code == 1
    assert "bad_secret" in result.output
    assert client.list_secrets()["SecretList"] == []


def test_a_value_is_no_argument(home):
    assert call("secrets", "set", "token", "value", *STAGE).exit_code == 2


def test_other_stages_and_other_secrets_are_not_listed(desk, client):
    client.create_secret(Name="stepline/prod/model", SecretString="k")
    desk.put("", {"a": "1"})
    SecretDesk(client, "prod-2", MemoryClock()).put("", {"b": "1"})
    assert [row.name for row in desk.rows()] == ["a"]


def test_a_removed_secret_leaves_the_others_and_the_last_one_leaves_nothing_that_costs(desk, client):
    desk.put("shop", {"crm.token": "1", "crm.user": "2"})
    desk.remove("shop", "crm.token")
    assert [row.name for row in desk.rows()] == ["crm.user"]
    assert read(client, "b:crm.user", "shop") == "2"
    desk.remove("shop", "crm.user")
    assert client.list_secrets()["SecretList"] == []
    desk.put("shop", {"crm.user": "3"})
    assert read(client, "b:crm.user", "shop") == "3"


def test_only_a_changed_value_is_written(desk, client):
    assert desk.put("", {"a": "1", "b": "2"}) == ["a", "b"]
    assert desk.put("", {"a": "1", "b": "3"}) == ["b"]
    assert desk.put("", {"a": "1"}) == []
    versions = client.list_secret_version_ids(SecretId=name_stage_secret("prod", ""))["Versions"]
    assert len(versions) == 2


@pytest.mark.parametrize(("first", "second"), [("a", "a.b"), ("a.b", "a")])
def test_a_name_is_no_secret_and_a_group_of_secrets(desk, first, second):
    desk.put("", {first: "1"})
    with pytest.raises(InputError) as refused:
        desk.put("", {second: "1"})
    assert refused.value.reason == "bad_secret"


def test_more_secrets_than_tags_and_larger_texts_are_refused(desk):
    with pytest.raises(InputError):
        desk.put("", {f"n{n}": "1" for n in range(NAMES_MAX + 1)})
    with pytest.raises(InputError) as refused:
        desk.put("", {"a": SECRET * 5000})
    assert SECRET not in str(refused.value)
    assert desk.rows() == []


def test_a_refusal_of_aws_names_the_request_and_no_value(client):
    class Refusing:
        def __getattr__(self, name):
            return getattr(client, name)

        def create_secret(self, **_):
            raise client.exceptions.LimitExceededException(
                {"Error": {"Code": "LimitExceededException"}}, "CreateSecret"
            )

    with pytest.raises(DependencyError) as refused:
        SecretDesk(Refusing(), "prod", MemoryClock()).put("", {"a": SECRET})
    assert str(refused.value) == "Secrets Manager refused CreateSecret: LimitExceededException"
    assert refused.value.reason == "secrets_refused"


def test_functions_of_the_stage_read_what_was_set(desk, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    desk.put("shop", {"crm.token": "1"})
    stored = StoredSecrets("prod", MemoryClock())
    assert parse_descriptors({}, bundle_id="shop", stored=stored).get_secret("b:crm.token") == "1"
