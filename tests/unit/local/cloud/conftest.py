"""An account of moto's, and the context of a deployment. Imports that need an extra are local."""

import pytest


@pytest.fixture
def account(aws):
    from stepline.local.cloud.account import AwsAccount
    from tests.unit.local.cloud.recorded_programs import REGION, session

    return AwsAccount(session(REGION))


@pytest.fixture
def bootstrapped(account):
    from tests.unit.local.cloud.recorded_programs import bootstrap

    bootstrap(account)


@pytest.fixture
def programs():
    from tests.unit.local.cloud.recorded_programs import Programs

    return Programs()


@pytest.fixture
def prompts():
    from tests.unit.local.cloud.recorded_programs import RecordedPrompts

    return RecordedPrompts()


@pytest.fixture
def context(tmp_path, prompts, programs, account):
    from stepline.local.check import passed
    from stepline.local.cloud.account import AwsAccount
    from stepline.local.cloud.deploy import Desk
    from tests.unit.local.cloud.recorded_programs import REGION, session

    return Desk(
        home=tmp_path / "home",
        project=tmp_path / "project",
        confirm=prompts.confirm,
        say=prompts.say,
        run=programs,
        open_account=lambda profile, region: AwsAccount(session(region or REGION), profile=profile),
        install=lambda _home, _say: None,
        build_page=lambda _say: None,
        is_deployed=lambda _account, _stage: False,
        explain=lambda _account, _stage, _since: "",
        check_page=lambda _stage, _outputs: passed("page", "https://chat.example/"),
        try_turn=lambda _url, _token: "Yes.",
    )
