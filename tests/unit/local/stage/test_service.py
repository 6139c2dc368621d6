import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from stepline.errors import DependencyError
from stepline.local.stage.service import Service, claim_port

ANSWER = """
import http.server, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *arguments): pass
if len(sys.argv) > 2: signal.signal(signal.SIGTERM, signal.SIG_IGN)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""

READ_PID = """
import pathlib, sys
from stepline.local.stage.service import Service
print(Service("probe", pathlib.Path(sys.argv[1])).pid)
"""


@pytest.fixture
def port(tmp_path):
    with claim_port("probe", 0, tmp_path) as port:
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
        health_url=f"http://127.0.0.1:{port}/",
        timeout_s=20,
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


def test_a_process_id_without_the_lock_is_nobody(service, tmp_path):
    (tmp_path / "probe.pid").write_text(str(os.getpid()))
    assert not service.running
    service.stop(timeout_s=5)  # and this test is still here to tell


def test_a_service_that_will_not_end_is_ended(service, port):
    start(service, port, "stubborn")
    service.stop(timeout_s=0.2)
    assert not service.running


def test_a_service_is_ended_as_soon_as_it_has_nothing_left_to_do(service, port):
    start(service, port, "stubborn")
    asked = []
    service.stop(timeout_s=600, done=lambda: bool(asked.append(1)) or len(asked) > 1)
    assert not service.running
    assert len(asked) == 2


def test_a_killed_service_is_not_running(service, port):
    start(service, port)
    os.kill(service.pid, signal.SIGKILL)
    service.stop(timeout_s=5)
    start(service, port)
    assert service.running


def test_a_start_that_fails_tells_its_last_words(service, port):
    with pytest.raises(DependencyError) as caught:
        service.start(
            [sys.executable, "-c", "raise SystemExit('no such luck')"],
            {"PATH": os.defpath},
            health_url=f"http://127.0.0.1:{port}/",
            timeout_s=20,
        )
    assert caught.value.reason == "local_service"
    assert "no such luck" in str(caught.value)
    assert not service.running


def claimed(name, preferred, home):
    with claim_port(name, preferred, home) as port:
        return port


def test_a_service_keeps_its_port_while_it_is_free(tmp_path):
    port = claimed("probe", 0, tmp_path)
    assert claimed("probe", 0, tmp_path) == port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert claimed("probe", port, tmp_path) != port


def test_two_services_never_share_a_port(tmp_path):
    port = claimed("one", 0, tmp_path)
    assert claimed("two", port, tmp_path) != port


def test_two_stages_that_start_at_once_take_two_ports(tmp_path, port):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    taken = []
    thread = threading.Thread(target=lambda: taken.append(claimed("probe", port, other)))
    with socket.socket() as service:
        with claim_port("probe", port, mine) as own:
            thread.start()
            thread.join(0.3)  # long enough to take the port that nothing listens on yet
            service.bind(("127.0.0.1", own))
            service.listen()
        thread.join()
    assert own == port
    assert taken != [port]
