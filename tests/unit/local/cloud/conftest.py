"""An account of moto's, and a desk in it. What needs an extra of ours is imported where it is used."""

import pytest


@pytest.fixture
def aws(monkeypatch):
    from moto import mock_aws

    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "STEPLINE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield


@pytest.fixture
def account(aws):
    from stepline.local.cloud.account import Account
    from tests.unit.local.cloud.recorded_programs import REGION, session

    return Account(session(REGION))


@pytest.fixture
def bootstrapped(account):
    from tests.unit.local.cloud.recorded_programs import bootstrap

    bootstrap(account)


@pytest.fixture
def programs():
    from tests.unit.local.cloud.recorded_programs import Programs

    return Programs()


@pytest.fixture
def talk():
    from tests.unit.local.cloud.recorded_programs import Talk

    return Talk()


@pytest.fixture
def desk(tmp_path, talk, programs, account):
    from stepline.local.cloud.account import Account
    from stepline.local.cloud.deploy import Desk
    from tests.unit.local.cloud.recorded_programs import REGION, session

    return Desk(
        home=tmp_path / "home",
        confirm=talk.confirm,
        say=talk.say,
        run=programs,
        open_account=lambda profile, region: Account(session(region or REGION), profile=profile),
        install=lambda _home, _say: None,
        stands=lambda _account, _stage: False,
        try_turn=lambda _url, _token: "Yes.",
    )
