"""Versions end a day after their successors were published, and never one that serves or was just published."""

import io
import zipfile
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from stepline_cdk import version_sweep

NAME = "stepline-dev-decide"
A_DAY_AGO = datetime.now(UTC) - timedelta(days=1)
EARLIER, LATER = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))


@pytest.fixture
def client(monkeypatch):
    """A function of moto's with five versions, of which the third serves."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        role = boto3.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        made = boto3.client("lambda")
        for number in range(1, 6):
            if number == 1:
                made.create_function(
                    FunctionName=NAME,
                    Runtime="python3.12",
                    Handler="index.handler",
                    Role=role,
                    Code={"ZipFile": code(number)},
                )
            else:
                made.update_function_code(FunctionName=NAME, ZipFile=code(number))
            made.publish_version(FunctionName=NAME)
        made.create_alias(FunctionName=NAME, Name="live", FunctionVersion="3")
        yield made


def code(number):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("index.py", f"number = {number}")
    return archive.getvalue()


def versions(client):
    return {one["Version"] for one in client.list_versions_by_function(FunctionName=NAME)["Versions"]}


def test_on_the_day_of_a_release_every_version_remains(client):
    client.create_alias(FunctionName=NAME, Name="previous", FunctionVersion="2")
    version_sweep.sweep(client, NAME, EARLIER)
    assert versions(client) == {"$LATEST", "1", "2", "3", "4", "5"}
    assert client.get_alias(FunctionName=NAME, Name="previous")["FunctionVersion"] == "2"


def test_a_day_later_only_the_live_version_remains(client):
    client.create_alias(FunctionName=NAME, Name="previous", FunctionVersion="2")
    version_sweep.sweep(client, NAME, LATER)
    assert versions(client) == {"$LATEST", "3"}
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_alias(FunctionName=NAME, Name="previous")


def test_both_versions_of_a_release_by_parts_remain(client):
    client.update_alias(
        FunctionName=NAME, Name="live", RoutingConfig={"AdditionalVersionWeights": {"4": 0.1}}
    )
    version_sweep.sweep(client, NAME, LATER)
    assert versions(client) == {"$LATEST", "3", "4"}


def aged(client, ages):
    """The client, whose versions were published these hours ago, the others long ago."""
    listed = client.list_versions_by_function(FunctionName=NAME)["Versions"]
    now = datetime.now(UTC)

    class Clocked:
        def __getattr__(self, name):
            return getattr(client, name)

        def get_paginator(self, _):
            return self

        def paginate(self, **_):
            hours = {one["Version"]: ages.get(one["Version"], 999) for one in listed}
            return [
                {
                    "Versions": [
                        {**one, "LastModified": stamp(now - timedelta(hours=hours[one["Version"]]))}
                        for one in listed
                    ]
                }
            ]

    return Clocked()


def test_a_version_that_a_deployment_has_just_published_remains(client):
    version_sweep.sweep(aged(client, {"5": 0}), NAME, A_DAY_AGO)
    assert versions(client) == {"$LATEST", "3", "4", "5"}


def test_releases_within_a_day_of_each_other_keep_no_version_for_longer(client):
    client.update_alias(FunctionName=NAME, Name="live", FunctionVersion="5")
    client.create_alias(FunctionName=NAME, Name="previous", FunctionVersion="1")
    version_sweep.sweep(aged(client, {"1": 60, "2": 50, "3": 40, "4": 20, "5": 10}), NAME, A_DAY_AGO)
    assert versions(client) == {"$LATEST", "1", "3", "4", "5"}, (
        "the first is recorded, the third served a day ago"
    )


def test_the_version_that_a_rollback_left_ends_too(client):
    client.update_alias(FunctionName=NAME, Name="live", FunctionVersion="4")
    version_sweep.sweep(aged(client, {"4": 90, "5": 30}), NAME, A_DAY_AGO)
    assert versions(client) == {"$LATEST", "4"}


def stamp(at):
    return at.strftime("%Y-%m-%dT%H:%M:%S.000+0000")


def test_each_function_is_swept_and_a_failure_is_raised_at_the_end(client, monkeypatch):
    monkeypatch.setenv("FUNCTIONS", f"stepline-dev-none,{NAME}")
    monkeypatch.setattr(version_sweep, "KEPT", timedelta(hours=-1))
    with pytest.raises(ExceptionGroup) as caught:
        version_sweep.handler({}, None)
    assert len(caught.value.exceptions) == 1
    assert versions(client) == {"$LATEST", "3"}
