"""Starting and stopping the stage as a whole, without an emulator."""

import pytest

from stepline.errors import DependencyError
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
