import pytest


@pytest.fixture
def aws(monkeypatch):
    from moto import mock_aws

    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "STEPLINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield
