"""Starting and stopping the stage as a whole, without an emulator."""

import pytest

from stepline.errors import DependencyError, InputError
from stepline.local.stage import bundle_code, lifecycle
from stepline.local.stage.deployed import make_home
from stepline.local.stage.program_environment import MODE_VARIABLE
from stepline.local.stage.service import Service, claim_port, claimed_port, release_ports


def test_a_failed_start_leaves_no_process_and_no_port(tmp_path, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(MODE_VARIABLE, "fargate")
    monkeypatch.setenv("PATH", str(tmp_path))  # no docker command
    # An index built in our own checkout would change, under other tests, the inputs of a deployment.
    monkeypatch.setattr(bundle_code, "CHECKOUT_BUNDLES", {})
    home, said = tmp_path / "home", []
    other = make_home(tmp_path / "other")
    services = [Service(name, home) for name in ("page", "issuer", "model", "emulator")]
    try:
        with pytest.raises(DependencyError):
            lifecycle.start_stage(said.append, home)
        assert [line.split(" on ")[0] for line in said] == [
            "starting the chat page",
            "starting the token issuer",
            "starting the scripted model",
        ]
        assert [service.running for service in services] == [False] * 4
        assert claim_port("page", claimed_port("page", home), other) == claimed_port("page", home)
    finally:
        for service in services:
            service.stop(timeout_s=3)
        for stage in (home, other):
            release_ports(stage)


def test_the_local_stage_scans_uploads_with_the_daemon_that_its_caller_names(monkeypatch):
    monkeypatch.setenv("APP_AV_SCAN", "1")
    monkeypatch.setenv("CLAMAV_HOST", "127.0.0.1")
    monkeypatch.setenv("CLAMAV_PORT", "3311")
    choices = lifecycle.read_local_choices()
    assert {name: choices[name] for name in ("av", "clamav_host", "clamav_port")} == {
        "av": "clamd",
        "clamav_host": "127.0.0.1",
        "clamav_port": "3311",
    }


def test_an_unknown_scanner_is_refused_before_the_local_stage_starts(monkeypatch):
    monkeypatch.setenv("APP_AV_SCAN", "norton")
    with pytest.raises(InputError, match="APP_AV_SCAN"):
        lifecycle.read_local_choices()
