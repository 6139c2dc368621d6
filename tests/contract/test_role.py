"""A process of another service acts under the role that it took, and under no other."""

import json

import pytest
from botocore.credentials import RefreshableCredentials

from stepline.adapters.aws import client
from stepline.adapters.aws.client import connect, session, take_role
from stepline.adapters.aws.table import Table
from stepline.errors import InputError, SteplineError
from tests.support.aws import moto

TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
}


@pytest.fixture(autouse=True)
def _process(monkeypatch):
    """Be a process that has taken no role."""
    monkeypatch.setattr(client, "_TAKEN", [])
    with moto():
        yield


@pytest.fixture
def role():
    made = connect("iam", read_timeout_s=5).create_role(
        RoleName="events", AssumeRolePolicyDocument=json.dumps(TRUST)
    )
    return made["Role"]["Arn"]


def who():
    return connect("sts", read_timeout_s=5).get_caller_identity()["Arn"]


def test_clients_use_a_role_once_it_was_assumed(role):
    assert ":assumed-role/" not in who()
    take_role(role, "billing")
    assert who().endswith(":assumed-role/events/billing")


def test_a_role_is_kept_when_the_session_is_made_anew(role):
    take_role(role, "billing")
    session.cache_clear()
    assert ":assumed-role/events/" in who()


def test_credentials_of_a_role_are_of_the_kind_that_renews_itself(role):
    take_role(role, "billing")
    credentials = session().get_credentials()
    assert isinstance(credentials, RefreshableCredentials)
    assert credentials.get_frozen_credentials().token
    assert not credentials.refresh_needed()


def test_a_process_without_credentials_gets_a_clear_error(role, monkeypatch):
    take_role(role, "billing")
    with monkeypatch.context() as bare:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            bare.delenv(name, raising=False)
        for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
            bare.setenv(name, "/nowhere")
        bare.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with pytest.raises(SteplineError) as refused:
            Table("conversations").get("LOG#a", "1", consistent=True)
    assert refused.value.context["aws_code"] == "NoCredentialsError"


def test_a_process_takes_one_role(role):
    take_role(role, "billing")
    take_role(role, "billing")
    with pytest.raises(InputError) as caught:
        take_role(f"{role}-of-another-stage", "billing")
    assert caught.value.reason == "another_role"
