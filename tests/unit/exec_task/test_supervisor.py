"""The supervisor without a container: its messages over pipes, in a thread, on a folder of the test."""

import contextlib
import hashlib
import os
import stat
import threading

import pytest
from msgspec.structs import replace

from exec_task.caller import HungUp
from exec_task.executor.wire import Client, ToolCallError
from exec_task.init import was_out_of_memory
from exec_task.program import Program
from exec_task.stdio import Stdio
from exec_task.supervisor import serve
from stepline.adapters.docker.supervisor_protocol import (
    Blob,
    CancelProgram,
    Collect,
    Fetch,
    Launch,
    Missing,
    Ready,
    Report,
    Violation,
)
from stepline.adapters.sandbox.tail import Tail
from stepline.errors import SandboxError
from stepline.model.batch import decode_batch, encode_batch
from stepline.model.program.execution import RunLimits, WorkFile
from stepline.ports.executor import Job
from stepline.tools.context import ToolOutput
from tests.contract.executor_jobs import tool_host
from tests.support.log_builder import LogBuilder
from tests.unit.adapters.docker.test_docker_command_line import REQUEST
from tests.unit.programs.tool_host import make_host, tool

LIMITS = RunLimits(timeout_s=180, max_file_bytes=1000, max_delta_bytes=2000, monitor_interval_s=0.1)
ISOLATION = {"backend": "docker", "seccomp": True, "no_new_privs": True, "uid": 1001}


class Supervisor:
    """A serving supervisor, and the other side of its connection."""

    def __init__(self, folder):
        self.root, self.private = folder / "workspace", folder / "private"
        self.root.mkdir()
        self.private.mkdir()
        self.made, self.error, self.tools = 0, None, ()
        here, there = os.pipe(), os.pipe()
        self.stdio = Stdio(here[0], there[1])
        self._theirs = Stdio(there[0], here[1])
        self._fds = [*here, *there]  # the supervisor reads from the last one
        self._thread = threading.Thread(target=self._serve)

    def start(self, **fields):
        request = replace(REQUEST, **{"limits": LIMITS, "code": "print('ü')\n", **fields})
        log = LogBuilder()
        log.message("The warehouse is in Lyon.")
        batches = tuple(map(encode_batch, log.batches))
        self.stdio.send(Launch(request=request, strategy="split", token="secret", batches=batches))
        self._thread.start()

    def hello(self):
        """Act as the executor; return its connection."""
        client = Client(str(self.root / "socket/supervisor.sock"), "secret", reply_s=60)
        client.hello(ISOLATION)
        return client

    def finish(self):
        """Collect; return the report and the bytes of its files by path."""
        self.stdio.send(Collect())
        report = self.stdio.receive()
        bodies = {}
        for sha256 in dict.fromkeys(file.sha256 for file in report.files):
            bodies[sha256] = b""
            while True:
                blob = self.stdio.receive()
                bodies[sha256] += blob.data
                if blob.last:
                    break
        return report, {file.path: bodies[file.sha256] for file in report.files}

    def join(self):
        """Wait for the supervisor to end."""
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join()

    def close(self):
        """Close the connection, and let the supervisor end."""
        if self._fds:
            os.close(self._fds.pop())
            self.join()
        while self._fds:
            os.close(self._fds.pop())

    def _serve(self):
        try:
            serve(self._theirs, root=self.root, private=self.private, owner=None, make_host=self._make_host)
        except (SandboxError, HungUp) as error:
            self.error = error

    def _make_host(self, launch, cancel, ask):
        self.made += 1
        if self.tools:
            return make_host(*self.tools, cancel=cancel)
        batches = [decode_batch(batch) for batch in launch.batches]
        return tool_host(
            Job(request=launch.request, batches=batches, fetch=bytes, spool=self.private, cancel=cancel)
        )


@pytest.fixture
def supervisor(tmp_path):
    made = Supervisor(tmp_path)
    yield made
    made.close()


def test_the_supervisor_sets_up_the_workspace_and_reports_its_files(supervisor):
    body = b"1,2\n"
    sha256 = hashlib.sha256(body).hexdigest()
    given = WorkFile(path="turn_0001/outputs/in.csv", key="k1", sha256=sha256, size_bytes=4, mime="text/csv")
    supervisor.start(files=(given,))
    assert supervisor.stdio.receive() == Fetch(key="k1")
    supervisor.stdio.send(Blob(data=body[:1], last=False))
    supervisor.stdio.send(Blob(data=body[1:]))
    assert supervisor.stdio.receive() == Ready()
    assert (supervisor.root / "work/user_code.py").read_text(encoding="utf-8") == "print('ü')\n"
    out = supervisor.root / "out/turn_0001/outputs"
    assert (out / "in.csv").read_bytes() == body
    (out / "sum.csv").write_bytes(b"3\n")
    supervisor.hello().close()
    report, bodies = supervisor.finish()
    assert bodies == {"turn_0001/outputs/sum.csv": b"3\n"}
    assert report.unchanged == ("turn_0001/outputs/in.csv",)
    assert report.isolation is not None
    assert report.isolation.seccomp


def test_without_a_hello_the_report_names_no_isolation(supervisor):
    supervisor.start()
    assert supervisor.stdio.receive() == Ready()
    report, bodies = supervisor.finish()
    assert report == Report()
    assert bodies == {}


def test_tools_are_made_for_the_first_call_and_once(supervisor):
    supervisor.start()
    assert supervisor.stdio.receive() == Ready()
    client = supervisor.hello()
    assert supervisor.made == 0
    found = [client.call("ctx_tools.fetch_ctx", {"path": "ar:turn_0001.user.prompt"}) for _ in range(2)]
    client.close()
    assert found[0] == found[1]
    assert "Lyon" in str(found[0])
    assert supervisor.made == 1
    report, _ = supervisor.finish()
    assert [(call.tool_id, call.status) for call in report.calls] == [("ctx_tools.fetch_ctx", "ok")] * 2


def test_a_tool_that_outlives_its_program_is_cancelled(supervisor):
    began, cancelled = threading.Event(), []

    def wait(_params, context):
        began.set()
        cancelled.append(context.cancel.wait(30))
        return ToolOutput(ret="at last")

    supervisor.tools = (tool("test.wait", wait),)
    supervisor.start()
    assert supervisor.stdio.receive() == Ready()
    client = supervisor.hello()

    def call():
        with contextlib.suppress(ToolCallError):  # it may get the answer, or a closed connection
            client.call("test.wait", {})

    caller = threading.Thread(target=call)
    caller.start()
    assert began.wait(30)
    report, _ = supervisor.finish()
    caller.join()
    client.close()
    assert cancelled == [True]
    assert [call.tool_id for call in report.calls] == ["test.wait"]


def test_a_cancellation_is_read_among_other_messages(supervisor):
    ours, theirs = supervisor.stdio, supervisor._theirs
    ours.send(Missing(message="gone"))
    assert theirs.hear() == ""
    ours.send(CancelProgram())
    assert theirs.hear() == "cancelled"


def test_growth_beyond_a_limit_is_reported_immediately_and_only_once(supervisor):
    supervisor.start()
    assert supervisor.stdio.receive() == Ready()
    (supervisor.root / "out/turn_0001/outputs/big").write_bytes(bytes(1001))
    assert supervisor.stdio.receive() == Violation(code="file_size_limit")
    assert supervisor.stdio.poll(0.5) is None
    report, _ = supervisor.finish()
    assert report.exceeded == "file_size_limit"


def test_a_missing_input_fails_the_run(supervisor):
    given = WorkFile(
        path="turn_0001/outputs/in.csv", key="k1", sha256="0" * 64, size_bytes=4, mime="text/csv"
    )
    supervisor.start(files=(given,))
    assert supervisor.stdio.receive() == Fetch(key="k1")
    supervisor.stdio.send(Missing(message="there is no k1"))
    supervisor.join()
    assert supervisor.error.reason == "restore_failed"


def test_a_workspace_that_is_too_large_before_it_begins_begins_nothing(supervisor):
    supervisor.start(limits=replace(LIMITS, max_workspace_bytes=1))
    supervisor.join()
    assert supervisor.error.reason == "workspace_size_limit"


def test_the_supervisor_ends_when_its_caller_is_gone(supervisor):
    supervisor.start()
    assert supervisor.stdio.receive() == Ready()
    supervisor.close()
    assert isinstance(supervisor.error, HungUp)
    assert not (supervisor.root / "socket/supervisor.sock").exists()


def test_a_run_begins_with_its_launch(supervisor):
    supervisor.stdio.send(Collect())
    supervisor.join()
    assert "launch" in str(supervisor.error)


def test_the_program_cannot_write_to_the_folder_of_the_socket_or_above(supervisor):
    supervisor.start()
    assert supervisor.stdio.receive() == Ready()
    socket = supervisor.root / "socket"
    assert stat.S_IMODE(socket.stat().st_mode) == 0o750
    assert stat.S_IMODE((socket / "supervisor.sock").stat().st_mode) == 0o660


@pytest.mark.skipif(os.getpid() == 1, reason="this is process 1, which the guard lets through")
def test_a_combined_run_ends_everything_around_it_and_so_needs_to_be_process_1():
    with pytest.raises(SandboxError):
        Program(["true"], b"", Tail(1))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n", True),
        ("low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\n", False),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", True),
        ("oom_kill_disable 1\nunder_oom 0\noom_kill 0\n", False),
        ("", False),
    ],
)
def test_the_kernels_counter_shows_whether_memory_ran_out(tmp_path, events, expected):
    (tmp_path / "events").write_text(events)
    assert was_out_of_memory((str(tmp_path / "absent"), str(tmp_path / "events"))) is expected
