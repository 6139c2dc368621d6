import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from stepline.errors import DependencyError
from stepline.local.stage.service import Service, claim_port, claimed_port, release_ports
from tests.support.free_port import free_port

ANSWER = """
import http.server, os, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/_stepline/health": return self.send_error(404)
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["SERVICE_IDENTITY"].encode())
    def log_message(self, *arguments): pass
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "orderly" in sys.argv: signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended in order"))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

STRANGER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[1].encode())
    def log_message(self, *arguments): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""

CLAIM = """
import pathlib, sys
from stepline.local.stage.service import claim_port
print(claim_port("probe", int(sys.argv[1]), pathlib.Path(sys.argv[2])))
"""

READ_PID = """
import pathlib, sys
from stepline.local.stage.service import Service
print(Service("probe", pathlib.Path(sys.argv[1])).pid)
"""


@pytest.fixture
def port(tmp_path):
    return claim_port("probe", free_port(), tmp_path)


@pytest.fixture
def stages(tmp_path):
    """The homes of two stages that are not up."""
    homes = [tmp_path / name for name in ("mine", "other")]
    for home in homes:
        home.mkdir()
    yield homes
    for home in homes:
        release_ports(home)


@pytest.fixture
def port_apart(tmp_path):
    """A port that no stage has."""
    home = tmp_path / "apart"
    home.mkdir()
    port = claim_port("probe", free_port(), home)
    release_ports(home)
    return port


@pytest.fixture
def service(tmp_path):
    service = Service("probe", tmp_path)
    yield service
    service.stop(timeout_s=5)


def start(service, port, *flags):
    service.start(
        [sys.executable, "-c", ANSWER, str(port), *flags],
        {"PATH": os.defpath},
        port=port,
        timeout_s=60,
    )


def test_a_service_runs_from_its_start_to_its_stop(service, port):
    assert not service.running
    start(service, port)
    assert service.running
    service.stop(timeout_s=5)
    assert not service.running
    assert service.pid is None


def test_a_second_start_finds_the_first(service, port):
    start(service, port)
    first = service.pid
    start(service, port)
    assert service.pid == first


def test_another_process_finds_it_by_the_lock(service, port, tmp_path):
    start(service, port)
    seen = subprocess.run(
        [
            *(sys.executable, "-c", READ_PID, str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(seen.stdout) == service.pid


def test_a_process_id_without_the_lock_is_no_service(service, tmp_path):
    (tmp_path / "probe.pid").write_text(str(os.getpid()))
    assert not service.running
    service.stop(timeout_s=5)  # and this test still runs


def test_a_service_that_will_not_end_is_ended(service, port):
    start(service, port, "stubborn")
    service.stop(timeout_s=0.2)
    assert not service.running


def test_a_service_is_ended_as_soon_as_it_is_done(service, port):
    start(service, port, "stubborn")
    asked = []
    service.stop(timeout_s=600, done=lambda: bool(asked.append(1)) or len(asked) > 1)
    assert not service.running
    assert len(asked) == 2


def test_a_suspended_service_ends_as_it_would_otherwise(service, port):
    start(service, port, "orderly")
    os.kill(service.pid, signal.SIGSTOP)
    service.stop(timeout_s=60)
    assert not service.running
    assert "ended in order" in service.last_words()


def test_a_stop_does_not_wait_for_a_process_that_outlives_a_kill(service, port, monkeypatch):
    start(service, port, "stubborn")
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda *_: None)
        with pytest.raises(DependencyError) as caught:
            service.stop(timeout_s=0.1)
    assert caught.value.reason == "local_service"
    assert service.running


def test_a_killed_service_is_not_running(service, port):
    start(service, port)
    os.kill(service.pid, signal.SIGKILL)
    service.stop(timeout_s=5)
    start(service, port)
    assert service.running


def test_a_failed_start_reports_the_end_of_its_log(service, port):
    with pytest.raises(DependencyError) as caught:
        service.start(
            [sys.executable, "-c", "raise SystemExit('no such luck')"],
            {"PATH": os.defpath},
            port=port,
            timeout_s=60,
        )
    assert caught.value.reason == "local_service"
    assert "no such luck" in str(caught.value)
    assert not service.running


@contextmanager
def stranger(says):
    """Yield the port of a process that answers every request with the same text."""
    with subprocess.Popen(
        [sys.executable, "-c", STRANGER, says], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@pytest.mark.parametrize("says", ["", "{}", "0" * 32])
def test_the_answer_of_a_stranger_is_not_the_childs(service, says):
    with stranger(says) as port, pytest.raises(DependencyError) as caught:
        start(service, port)
    assert caught.value.reason == "local_service"
    assert f"another process answers at 127.0.0.1:{port}" in str(caught.value)
    assert "Address already in use" in str(caught.value)
    assert not service.running


def test_the_answer_of_another_stage_is_not_the_childs(service, port, tmp_path):
    (tmp_path / "other").mkdir()
    other = Service("probe", tmp_path / "other")
    try:
        start(other, port)
        with pytest.raises(DependencyError):
            start(service, port)
        assert other.running
    finally:
        other.stop(timeout_s=5)


def test_a_service_that_runs_is_not_found_at_the_port_of_a_stranger(service, port):
    start(service, port)
    with stranger("") as elsewhere, pytest.raises(DependencyError):
        service.start([], {}, port=elsewhere, timeout_s=0.1)


def test_the_health_of_a_service_is_asked_without_a_proxy(service, port, monkeypatch):
    with stranger("") as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy}")
        start(service, port)
    assert service.running


def test_a_service_keeps_its_port_while_it_is_free(tmp_path):
    port = claim_port("probe", free_port(), tmp_path)
    assert claim_port("probe", 0, tmp_path) == port
    assert claimed_port("probe", tmp_path) == port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert claim_port("probe", port, tmp_path) != port


def test_two_services_never_share_a_port(tmp_path):
    port = claim_port("one", free_port(), tmp_path)
    assert claim_port("two", port, tmp_path) != port


def test_two_stages_that_start_at_once_take_two_ports(stages, port_apart):
    mine, other = stages
    assert claim_port("probe", port_apart, mine) == port_apart
    assert claim_port("probe", port_apart, other) in range(port_apart + 10, port_apart + 1000, 10)


def test_a_stage_keeps_its_ports_while_its_services_are_killed_or_start_again(stages, port_apart):
    mine, other = stages
    service = Service("probe", mine)
    start(service, claim_port("probe", port_apart, mine))
    service.stop(timeout_s=5)
    assert claim_port("probe", port_apart, other) != port_apart
    assert claim_port("probe", port_apart, mine) == port_apart


def test_a_shell_with_another_temporary_folder_gets_another_port(stages, port_apart, tmp_path):
    mine, other = stages
    claim_port("probe", port_apart, mine)
    done = subprocess.run(
        [sys.executable, "-c", CLAIM, str(port_apart), str(other)],
        env={"PATH": os.defpath, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) != port_apart


@pytest.mark.parametrize("leave", [release_ports, shutil.rmtree], ids=["down", "deleted"])
def test_the_ports_of_a_stage_that_is_no_longer_up_are_anybodys(stages, port_apart, leave):
    mine, other = stages
    claim_port("probe", port_apart, mine)
    leave(mine)
    assert claim_port("probe", port_apart, other) == port_apart
