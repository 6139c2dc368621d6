"""Starting and stopping the stage as a whole, without an emulator."""

import os
import signal
import sys

import pytest

from stepline.errors import DependencyError, InputError
from stepline.local.stage import bundle_code, emulator, lifecycle, service
from stepline.local.stage.deployed import LocalStage, make_home, save
from stepline.local.stage.program_environment import MODE_VARIABLE
from stepline.local.stage.service import Service, claim_port, claimed_port, release_ports
from tests.support.free_port import free_port

MUTE = """
import http.server, os, pathlib, signal, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["SERVICE_IDENTITY"].encode())
    def do_POST(self): threading.Event().wait()
    def log_message(self, *arguments): pass
def save(*_):
    pathlib.Path(sys.argv[2], "sfn.json").write_text("{}")
    os._exit(0)
signal.signal(signal.SIGTERM, save if len(sys.argv) > 2 else signal.SIG_IGN)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""An emulator that lists nothing. With a folder it saves there when it is asked to end, else it never ends."""

STAGE = LocalStage(
    endpoint="http://127.0.0.1:1",
    issuer_url="http://127.0.0.1:1",
    socket_url="ws://127.0.0.1:1/x",
    table="t",
    bucket="b",
    machine_arn="arn:aws:states:us-east-1:000000000000:stateMachine:m",
    model_url="",
    fingerprint="f",
)


@pytest.fixture
def mute(tmp_path):
    """Start an emulator that lists nothing; return its home and its process id."""
    home = make_home(tmp_path / "stage")
    child = Service("emulator", home)

    def begin(*folder):
        save(STAGE, home)
        port = claim_port("emulator", free_port(), home)
        command = [sys.executable, "-c", MUTE, str(port), *folder]
        child.start(command, {"PATH": os.defpath}, port=port, timeout_s=60)
        return home, child.pid

    yield begin
    child.stop(timeout_s=0)
    release_ports(home)


def test_an_emulator_that_does_not_answer_is_killed(mute, monkeypatch):
    monkeypatch.setattr(lifecycle, "ANSWER_S", 0.1)
    monkeypatch.setattr(emulator, "STOP_TIMEOUT_S", 0.1)
    home, _ = mute()
    said = []
    assert not lifecycle.down(said.append, home)
    assert said == [
        "the emulator does not list running turns (ReadTimeoutError); the next start resumes them",
        "stopping",
    ]
    assert not lifecycle.stage_status(home).services["emulator"]


def test_a_suspended_emulator_saves_its_data_before_it_ends(mute, tmp_path, monkeypatch):
    monkeypatch.setattr(lifecycle, "ANSWER_S", 0.1)
    monkeypatch.setattr(emulator, "STOP_TIMEOUT_S", 60)
    folder = tmp_path / "stage/data/state"
    folder.mkdir(parents=True)
    home, pid = mute(str(folder))
    os.kill(pid, signal.SIGSTOP)
    assert lifecycle.down(lambda _: None, home)
    assert not lifecycle.stage_status(home).services["emulator"]


def test_the_limits_of_the_steps_of_a_stop_are_twenty_seconds_together():
    drain_s = lifecycle.DRAIN_S + 2 * lifecycle.ANSWER_S
    companions_s = len(lifecycle.COMPANIONS) * (lifecycle.COMPANION_S + service.KILL_S)
    assert drain_s + emulator.STOP_TIMEOUT_S + emulator.KILL_S + companions_s <= 20


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
