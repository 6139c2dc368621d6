"""A task's supervisor on the in-memory twins: everything except the containers, the cloud and the program."""

from __future__ import annotations

import hashlib
import threading
import time
from types import SimpleNamespace

import msgspec
import pytest
from msgspec.structs import replace

from exec_task.heartbeat import Heartbeat
from exec_task.task import DONE, FAILED, Task, bound_time, perform
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.task import MemoryTasks
from stepline.errors import DependencyError
from stepline.model.program.execution import Run, RunLimits, WorkFile
from stepline.model.program.handover import RUN_MAX_S, Handover, Parcel
from stepline.model.program.running_log import RunningLog
from stepline.programs.packed_files import split_files
from tests.unit.adapters.docker.test_docker_command_line import REQUEST
from tests.unit.exec_task.simulated_executor import SimulatedExecutor

LIMITS = RunLimits(timeout_s=180, max_file_bytes=1000, max_delta_bytes=2000, monitor_interval_s=0.05)
TTL_S = 600


class HandedOverRun:
    """A run that was handed over, and the task that claims it."""

    def __init__(self, folder):
        self.clock = MemoryClock()
        self.tasks = MemoryTasks(self.clock)
        self.artifacts = MemoryArtifacts()
        self.objects = MemoryGrants(self.artifacts, self.clock)
        self.root, self.private, self.spool = (folder / name for name in ("workspace", "private", "spool"))
        for made in (self.root, self.private, self.spool):
            made.mkdir()
        self.tasks.waiting.add("token")
        self.limits_s = []
        self.heartbeat = Heartbeat(self.tasks, "token", interval_s=0.01)

    def hand_over(self, *, descriptors=None, **fields):
        request = replace(REQUEST, **{"limits": LIMITS, "code": "print('ü')\n", **fields})
        write = {
            name: self.objects.write(name, mime="x/y", ttl_s=TTL_S) for name in ("started", "run", "files")
        }
        reads = {file.key: self.objects.read(file.key, ttl_s=TTL_S) for file in request.files}
        log = self.objects.rewrite("log", mime="x/y", ttl_s=TTL_S)
        parcel = Parcel(request=request, batches=(), reads=reads, log=log, **write)
        self.artifacts.put("parcel", msgspec.msgpack.encode(parcel), mime="x/y")
        handover = Handover(parcel=self.objects.read("parcel", ttl_s=TTL_S), descriptors=descriptors or {})
        self.tasks.secrets["secret"] = msgspec.json.encode(handover).decode()

    def perform(self, part, **given):
        """Perform the task next to an executor's container that plays a part."""
        with SimulatedExecutor(self.root, part):
            return self.perform_alone(**given)

    def perform_alone(self, *, objects=None):
        task = Task(
            task_token=self.tasks,
            objects=objects or self.objects,
            heartbeat=self.heartbeat,
            token="token",
            secret="secret",
            root=self.root,
            private=self.private,
            owner=None,
            limit_s=self.limits_s.append,
        )
        with self.heartbeat:
            return perform(task)

    @property
    def run(self):
        return msgspec.json.decode(self.artifacts.objects["run"], type=Run)

    def files(self):
        split_files([self.artifacts.objects["files"]], self.run.files, self.spool)
        return {file.path: (self.spool / file.sha256).read_bytes() for file in self.run.files}


@pytest.fixture
def handed_over(tmp_path):
    return HandedOverRun(tmp_path)


def well(keeper):
    """Run a program that prints, writes two files of one content and a third, and ends."""
    client = keeper.hello()
    keeper.log("hello\n")
    for name, body in (("a", b"same"), ("b", b"same"), ("c", b"other")):
        (keeper.outputs / name).write_bytes(body)
    client.close()
    keeper.end()


def test_a_run_is_claimed_completed_stored_and_reported(handed_over):
    handed_over.hand_over()
    assert handed_over.perform(well) == DONE
    run = handed_over.run
    assert (run.error, run.returncode, run.program_log, run.seconds) == ("", 0, "hello\n", 0.25)
    assert run.isolation.backend == "fargate"
    assert handed_over.files() == {
        "turn_0001/outputs/a": b"same",
        "turn_0001/outputs/b": b"same",
        "turn_0001/outputs/c": b"other",
    }
    assert handed_over.artifacts.objects["files"] == b"sameother"
    assert handed_over.tasks.ended == {"token": ("", "")}
    assert handed_over.tasks.secrets == {}


def test_the_output_of_a_program_is_stored_with_its_run(handed_over):
    handed_over.hand_over(index=2)
    assert handed_over.perform(well) == DONE
    log = msgspec.json.decode(handed_over.artifacts.objects["log"], type=RunningLog)
    times = {"began_at": log.began_at, "ended_at": log.ended_at, "since": log.since}
    assert log == RunningLog(lane="exec.2.log", text="hello\n", ended=True, **times)
    assert handed_over.run.began_at == log.began_at
    assert "" < log.began_at <= log.ended_at


def test_a_parcel_of_an_earlier_release_has_no_grant_for_a_log(handed_over):
    handed_over.hand_over()
    parcel = msgspec.msgpack.decode(handed_over.artifacts.objects["parcel"])
    del parcel["log"]
    handed_over.artifacts.objects["parcel"] = msgspec.msgpack.encode(parcel)
    assert handed_over.perform(well) == DONE
    assert handed_over.run.program_log == "hello\n"
    assert "log" not in handed_over.artifacts.objects


def test_inputs_are_written_and_reported_unchanged(handed_over):
    body = b"1,2\n"
    given = WorkFile(
        path="turn_0001/outputs/in.csv",
        key="in",
        sha256=hashlib.sha256(body).hexdigest(),
        size_bytes=len(body),
        mime="text/csv",
    )
    handed_over.artifacts.put("in", body, mime="text/csv")
    handed_over.hand_over(files=(given,))

    def part(keeper):
        assert (keeper.outputs / "in.csv").read_bytes() == body
        keeper.hello().close()
        keeper.end()

    assert handed_over.perform(part) == DONE
    assert handed_over.run.unchanged == ("turn_0001/outputs/in.csv",)
    assert "files" not in handed_over.artifacts.objects


def test_a_run_that_another_task_has_claimed_is_not_touched(handed_over):
    handed_over.hand_over()
    handed_over.artifacts.put("started", b"", mime="x/y")
    assert handed_over.perform_alone() == DONE
    assert handed_over.artifacts.objects.keys() == {"parcel", "started"}
    assert handed_over.tasks.ended == {}


def test_a_task_without_a_waiting_state_leaves_the_run_to_its_successor(handed_over):
    handed_over.hand_over()
    handed_over.tasks.waiting.clear()
    assert handed_over.perform_alone() == DONE
    assert handed_over.tasks.secrets.keys() == {"secret"}
    assert handed_over.artifacts.objects.keys() == {"parcel"}


def test_a_run_is_completed_even_if_no_heartbeat_is_answered(handed_over):
    def away(_token):
        raise DependencyError("the service is away")

    handed_over.hand_over()
    handed_over.tasks.beat = away
    assert handed_over.perform(well) == DONE
    assert (handed_over.run.error, handed_over.run.returncode) == ("", 0)


@pytest.mark.parametrize("gone", ["secret", "parcel"])
def test_a_task_without_its_handover_cannot_report(handed_over, gone):
    handed_over.hand_over()
    handed_over.tasks.secrets.pop(gone, None)
    handed_over.artifacts.objects.pop(gone, None)
    assert handed_over.perform_alone() == FAILED
    assert handed_over.artifacts.objects.keys() <= {"parcel"}
    assert handed_over.tasks.ended == {}


def test_a_missing_input_is_the_error_of_the_run(handed_over):
    given = WorkFile(path="turn_0001/outputs/in.csv", key="in", sha256="0" * 64, size_bytes=1, mime="")
    handed_over.hand_over(files=(given,))
    assert handed_over.perform_alone() == DONE
    assert (handed_over.run.error, handed_over.run.returncode) == ("restore_failed", None)
    assert handed_over.tasks.ended


def test_descriptors_that_cannot_be_read_are_the_runs_error(handed_over):
    handed_over.hand_over(descriptors={"STEPLINE_RUNTIME_SECRETS_YAML_B64": "no base64"})
    assert handed_over.perform_alone() == DONE
    assert (handed_over.run.error, handed_over.run.returncode) == ("payload_unavailable", None)


def test_a_container_that_is_lost_is_reported_with_what_is_known(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.hello().close()
        keeper.log("so far\n")
        (keeper.outputs / "half").write_bytes(b"half")
        keeper.hang_up()

    assert handed_over.perform(part) == DONE
    run = handed_over.run
    assert (run.error, run.returncode, run.program_log) == ("sandbox_execution_failed", None, "so far\n")
    assert handed_over.files() == {"turn_0001/outputs/half": b"half"}


def test_a_container_that_is_lost_before_the_jail_reported_ran_nothing(handed_over):
    handed_over.hand_over()
    assert handed_over.perform(SimulatedExecutor.hang_up) == DONE
    run = handed_over.run
    assert (run.error, run.returncode) == ("sandbox_execution_failed", None)
    assert run.message.startswith("the program did not begin")


def test_a_jail_that_did_not_close_is_reported_with_its_own_message(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.log("abstract sockets are within reach\n")
        keeper.end(126)

    assert handed_over.perform(part) == DONE
    assert (handed_over.run.error, handed_over.run.returncode) == ("isolation_failed", 126)
    assert "within reach" in handed_over.run.message


def test_a_program_killed_for_lack_of_memory_is_reported(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.hello().close()
        keeper.end(-9, out_of_memory=True)

    assert handed_over.perform(part) == DONE
    assert (handed_over.run.error, handed_over.run.returncode) == ("memory_limit", -9)


def test_at_its_deadline_a_program_is_stopped_and_what_it_printed_and_wrote_is_stored(
    handed_over, monkeypatch
):
    handed_over.hand_over()
    passed_s = []
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(passed_s))
    monkeypatch.setattr("exec_task.control.time", later)

    def part(keeper):
        keeper.hello().close()
        keeper.log("so far\n")
        (keeper.outputs / "half").write_bytes(b"half")
        passed_s.append(LIMITS.timeout_s)
        assert keeper.hear() == {"type": "stop"}
        keeper.end(-15)

    assert handed_over.perform(part) == DONE
    run = handed_over.run
    assert (run.error, run.returncode, run.program_log) == ("timeout", 124, "so far\n")
    assert handed_over.files() == {"turn_0001/outputs/half": b"half"}


def test_growth_beyond_a_limit_stops_the_program(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.hello().close()
        (keeper.outputs / "big").write_bytes(bytes(1001))
        assert keeper.hear() == {"type": "stop"}
        keeper.end(-15)

    assert handed_over.perform(part) == DONE
    assert handed_over.run.error == "file_size_limit"


def test_a_stopped_task_ends_its_program_and_stores_its_partial_results(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.hello().close()
        keeper.log("so far\n")
        handed_over.heartbeat.stop()
        assert keeper.hear() == {"type": "stop"}
        keeper.end(-15)

    assert handed_over.perform(part) == DONE
    run = handed_over.run
    assert (run.error, run.returncode, run.program_log) == ("task_stopped", -15, "so far\n")
    assert handed_over.tasks.ended


def test_a_container_stopped_with_its_task_reports_the_stop_itself(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.hello().close()
        keeper.end(-15, stopped=True)

    assert handed_over.perform(part) == DONE
    assert handed_over.run.error == "task_stopped"


def test_a_task_stopped_while_it_waits_for_the_other_container_reports_the_stop(handed_over):
    handed_over.hand_over()
    put = handed_over.artifacts.put

    def put_and_stop(key, body, *, mime):
        written = put(key, body, mime=mime)
        if key == "started":
            handed_over.heartbeat.stop()
        return written

    handed_over.artifacts.put = put_and_stop
    assert handed_over.perform_alone() == DONE
    assert handed_over.run.error == "task_stopped"
    assert handed_over.run.message.startswith("the program did not begin")


def test_an_abandoned_task_ends_its_program_and_stores_nothing(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.hello().close()
        (keeper.outputs / "half").write_bytes(b"half")
        handed_over.tasks.waiting.clear()
        assert keeper.hear() == {}

    assert handed_over.perform(part) == DONE
    assert handed_over.artifacts.objects.keys() == {"parcel", "started", "log"}


def test_an_invalid_message_ends_the_run(handed_over):
    handed_over.hand_over()

    def part(keeper):
        keeper.say(type="ended", returncode="0")
        assert keeper.hear() == {}

    assert handed_over.perform(part) == DONE
    assert (handed_over.run.error, handed_over.run.returncode) == ("sandbox_execution_failed", None)


class Shut:
    """An object store that refuses objects of some names."""

    def __init__(self, objects, *names):
        self.objects, self.names = objects, names

    def get(self, grant):
        return self.objects.get(grant)

    def put(self, grant, body):
        if grant.url.endswith(self.names):
            raise DependencyError("the store is not to be reached")
        return self.objects.put(grant, body)


def test_files_that_cannot_be_stored_leave_a_report_without_them(handed_over):
    handed_over.hand_over()
    assert handed_over.perform(well, objects=Shut(handed_over.objects, "files")) == DONE
    assert (handed_over.run.error, handed_over.run.files) == ("collect_failed", ())
    assert handed_over.run.program_log == "hello\n"


def test_a_report_that_cannot_be_stored_is_not_announced(handed_over):
    handed_over.hand_over()
    assert handed_over.perform(well, objects=Shut(handed_over.objects, "run")) == FAILED
    assert handed_over.tasks.ended == {}


def test_a_claim_that_may_have_been_made_runs_nothing(handed_over):
    handed_over.hand_over()
    assert handed_over.perform_alone(objects=Shut(handed_over.objects, "started")) == FAILED
    assert handed_over.artifacts.objects.keys() == {"parcel"}


def test_the_time_of_a_task_is_limited_before_and_after_it_knows_its_program(handed_over):
    handed_over.hand_over()
    handed_over.perform(well)
    before, after = handed_over.limits_s
    assert after == before + LIMITS.timeout_s


def test_the_timeout_of_a_program_ends_before_the_states():
    request = replace(REQUEST, limits=replace(LIMITS, timeout_s=RUN_MAX_S + 1))
    assert bound_time(request).limits.timeout_s == RUN_MAX_S
    assert bound_time(REQUEST) == REQUEST


def test_the_socket_is_closed_before_the_program_starts(handed_over):
    handed_over.hand_over()
    found = threading.Event()

    def part(keeper):
        if not (handed_over.root / "socket/control.sock").exists():
            found.set()
        keeper.end(1)

    handed_over.perform(part)
    assert found.is_set()
