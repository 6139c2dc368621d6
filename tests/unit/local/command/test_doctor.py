import pytest

from stepline.local.command.doctor import check_requirements
from stepline.local.stage import lifecycle
from stepline.local.stage.deployed import make_home


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path / "home")


def by_name(checks):
    return {check.name: check for check in checks}


def test_every_failed_check_has_a_remedy(home):
    for check in check_requirements(home):
        assert check.detail
        assert check.ok or check.remedy


def test_a_new_machine_gets_the_command_to_start_the_stage(home):
    found = by_name(check_requirements(home))
    assert not found["deployment"].ok
    assert found["deployment"].remedy == "stepline up"
    assert not found["emulator"].ok


def test_an_open_home_is_found(home):
    assert by_name(check_requirements(home))["state"].ok
    home.chmod(0o755)
    assert not by_name(check_requirements(home))["state"].ok


def test_looking_starts_nothing_and_writes_nothing(home):
    check_requirements(home)
    assert not lifecycle.stage_status(home).up
    assert not list(home.iterdir())


def test_a_missing_home_is_no_failure(tmp_path):
    assert not lifecycle.stage_status(tmp_path / "nowhere").up
    assert by_name(check_requirements(tmp_path / "nowhere"))["state"].ok
