"""Fixtures of several packages. What needs an extra of ours is imported where it is used."""

import pytest


@pytest.fixture
def aws(monkeypatch):
    from moto import mock_aws

    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "STEPLINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield


@pytest.fixture
def gateway():
    from tests.unit.local.client.gateway import running_gateway

    with running_gateway() as running:
        yield running
