import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stepline.local.stage.cdk import digest_inputs
from stepline.local.stage.deployed import (
    REPOSITORY,
    LocalStage,
    credentials,
    load,
    make_home,
    save,
    tool_environment,
    write_private,
)
from stepline.local.stage.emulator import LOCK_FILE, Emulator
from stepline.local.stage.fingerprint import Fingerprint

STAGE = LocalStage(
    endpoint="http://127.0.0.1:1",
    issuer_url="http://127.0.0.1:2",
    socket_url="ws://127.0.0.1:1/x",
    table="t",
    bucket="b",
    machine_arn="arn:aws:states:us-east-1:000000000000:stateMachine:m",
    model_url="",
    fingerprint="f",
)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_stage_is_known_to_the_next_command(tmp_path):
    assert load(tmp_path) is None
    save(STAGE, tmp_path)
    assert load(tmp_path) == replace(STAGE, home=str(tmp_path))


def test_stored_files_are_readable_by_their_owner_only(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    write_private(make_home(home) / "secret", b"x")
    assert (mode(home), mode(home / "secret")) == (0o700, 0o600)


def test_a_stage_keeps_its_own_key(tmp_path):
    ours, other = tmp_path / "ours", tmp_path / "other"
    key = credentials(ours)
    assert credentials(ours) == key
    assert mode(ours / "access_key.json") == 0o600
    assert not set(key.values()) & set(credentials(other).values())
    assert [path.name for path in ours.iterdir()] == ["access_key.json"]
    assert key.items() <= Emulator(ours).variables(4566, {}).items()


def test_of_commands_that_start_together_all_get_one_key(tmp_path):
    start = threading.Barrier(8)

    def ask(_):
        start.wait()
        return credentials(tmp_path)["AWS_SECRET_ACCESS_KEY"]

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1


def test_a_child_sees_no_key_and_no_credential(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "HTTPS_PROXY", "GITHUB_TOKEN"):
        monkeypatch.setenv(name, "secret")
    assert "secret" not in tool_environment().values()


def test_the_emulator_listens_on_loopback_and_keeps_its_functions_there(tmp_path):
    variables = Emulator(tmp_path / "home").variables(4566, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert variables["BIND_HOST"] == "127.0.0.1"
    assert variables["AWS_ENDPOINT_URL"] == "http://127.0.0.1:4566"
    assert variables["IOT_MTLS_ENABLED"] == "0"
    assert variables["PERSIST_STATE"] == variables["S3_PERSIST"] == "1"
    assert variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9"


def test_functions_get_the_same_environment_from_every_shell(tmp_path, monkeypatch):
    def seen():
        return Emulator(tmp_path / "home").variables(4566, {})

    before = seen()
    for name in ("HOME", "LANG", "LC_ALL", "LC_TIME", "PATH", "TMPDIR", "TZ", "XDG_RUNTIME_DIR", "PLANTED"):
        monkeypatch.setenv(name, "/elsewhere")
    assert seen() == before
    assert set(before).isdisjoint({"LC_ALL", "PLANTED"})


def test_changed_values_are_reported_by_name_and_never_written(tmp_path):
    fingerprint = Fingerprint(tmp_path / "emulator.json")
    fingerprint.take({"ANTHROPIC_API_KEY": "sk-first", "STAYS": "1", "GOES": "1"})
    assert fingerprint.changed({"ANTHROPIC_API_KEY": "sk-first", "STAYS": "1", "GOES": "1"}) == []
    other = {"ANTHROPIC_API_KEY": "sk-second", "STAYS": "1", "COMES": "1"}
    assert fingerprint.changed(other) == ["ANTHROPIC_API_KEY", "COMES", "GOES"]
    assert "sk-" not in (tmp_path / "emulator.json").read_text()
    assert mode(tmp_path / "emulator.json") == 0o600


def test_the_emulator_is_pinned_by_hash():
    lines = LOCK_FILE.read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert any(line.startswith("ministack==") for line in pins)
    assert all("==" in pin and pin.endswith("\\") for pin in pins)


@pytest.mark.parametrize(
    "name",
    [
        "requirements.lock",
        "requirements-local.lock",
        "layers/deps/requirements.txt",
        "layers/mcp/requirements.txt",
        "layers/memory/requirements.txt",
        "package-lock.json",
    ],
)
def test_a_lock_file_names_no_host(name):
    assert "://" not in (REPOSITORY / name).read_text()


def test_a_deployment_depends_on_its_context():
    assert digest_inputs({"endpoint": "a"}) == digest_inputs({"endpoint": "a"})
    assert digest_inputs({"endpoint": "a"}) != digest_inputs({"endpoint": "b"})
