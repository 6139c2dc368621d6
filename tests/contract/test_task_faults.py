"""Whatever a run in a task dies of, its envelope has the keys of every other, and nothing of the task is left."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import msgspec
import pytest
import requests
from msgspec.structs import replace

from exec_task.task import perform
from stepline.errors import DependencyError, NotFoundError
from stepline.loop.programs.make_outcome import FILES, RESULT, RUN, STARTED
from stepline.loop.programs.remote import StoppedTask, end_wait, sweep_tasks
from stepline.loop.sweep import sweep_lane
from stepline.model.entry import Decided, Resulted
from stepline.model.ids import utc
from stepline.model.path import exec_key
from stepline.model.program.execution import CollectedFile, Isolation, Run
from stepline.model.program.handover import SECRET_MAX_BYTES, Handover, ObjectGrant, Parcel, TaskLaunch
from stepline.programs.outcome import Envelope
from tests.support.conversation import LANE
from tests.support.generation import answered, coded
from tests.support.task_conversation import BODY, PROFILE, Started, TaskConversation, failed, finish

HELLO = "print('hello')"
KEYS = set(msgspec.to_builtins(Envelope(exec_id="x", ok=True, result_filename="")))


@pytest.fixture
def conversation(tmp_path) -> TaskConversation:
    return TaskConversation(tmp_path, coded(HELLO, "totals.csv"), answered("done"))


def play(conversation: TaskConversation, fate: Any = finish) -> Resulted:
    """Run a turn whose program meets this fate; return the program's result."""
    conversation.fate = fate
    conversation.send()
    conversation.run()
    return result(conversation)


def result(conversation: TaskConversation) -> Resulted:
    (entry,) = conversation.entries(Resulted)
    return entry


def launched(conversation: TaskConversation) -> Any:
    """Return the step that starts the task of the first round's program."""
    conversation.send()
    return conversation.act(conversation.decide(conversation.take()[1]))


def key(conversation: TaskConversation, name: str) -> str:
    (decision,) = [entry for entry in conversation.entries(Decided) if entry.actions]
    return exec_key(
        LANE, conversation.batches()[-1].state.turn or turn(conversation), decision.actions[0].call_id, name
    )


def turn(conversation: TaskConversation) -> str:
    return next(batch.state.turn for batch in conversation.batches() if batch.state.turn)


def envelope(conversation: TaskConversation) -> Envelope:
    return msgspec.json.decode(conversation.ports.artifacts.get(key(conversation, RESULT)), type=Envelope)


def report(entry: Resulted) -> str:
    return entry.blocks[0].text if entry.blocks else ""


def meta(entry: Resulted) -> dict[str, Any]:
    """Return the facts that the timeline has of a run."""
    (facts,) = [block.meta for block in entry.blocks if "ok" in block.meta]
    return facts


def test_a_run_that_ends_well_is_collected_and_nothing_of_its_task_is_left(conversation):
    entry = play(conversation)
    assert (entry.status, entry.duration_ms) == ("ok", 500)
    (body,) = [block.body for block in entry.blocks if block.body]
    assert conversation.ports.artifacts.get(body.key) == BODY
    assert set(json.loads(conversation.ports.artifacts.get(key(conversation, RESULT)))) == KEYS
    assert conversation.left() == {}


def die(reason: str, exits: int | None) -> Any:
    """Stop before anything was taken."""
    return lambda task: task.stop(reason, exits=exits)


def die_claimed(reason: str, exits: int | None) -> Any:
    """Stop after the run was taken over, with the program in its midst."""

    def fate(task: Started) -> None:
        task.claim()
        task.stop(reason, exits=exits)

    return fate


def ended(**fields: Any) -> Any:
    """Report a run with these fields."""

    def fate(task: Started) -> None:
        task.store(task.claim(), Run(**fields))
        task.end()

    return fate


def silent(task: Started) -> None:
    """Be started and never heard of."""


def silent_claimed(task: Started) -> None:
    task.claim()


NEVER_RAN = {
    "it is not provisioned": (silent, "was not provisioned in time"),
    "its image cannot be pulled": (
        die("CannotPullContainerError: arn:aws:ecr:eu-west-1:123456789012:repository/x is not there", None),
        "CannotPullContainerError: … is not there",
    ),
    "it is stopped before it starts": (die("Task stopped by user", None), "Task stopped by user"),
    "its supervisor ends with 137": (die("OutOfMemoryError", 137), "OutOfMemoryError; ended with 137"),
    "its supervisor ends with 0 without a word": (die("Essential container exited", 0), "ended with 0"),
}


@pytest.mark.parametrize("name", NEVER_RAN)
def test_a_task_that_ended_before_its_program_is_reported_as_not_run(conversation, name):
    fate, said = NEVER_RAN[name]
    entry = play(conversation, fate)
    assert (entry.status, entry.error["code"]) == ("error", "sandbox_not_started")
    assert said in entry.error["message"]
    assert set(meta(entry)) <= {"ok", "returncode", "seconds", "backend", "code", "log_bytes", "deleted"}
    assert conversation.tasks.secrets == {}
    conversation.sweep()
    assert conversation.left() == {}


def test_a_task_that_cannot_be_started_is_an_error_with_its_cause_and_no_names(conversation):
    conversation.refuse = "No subnets of account 123456789012 have addresses. (Service: Ecs, Status Code: 400, Request ID: 0a1b)"
    entry = play(conversation)
    assert (entry.status, entry.error["code"]) == ("error", "fargate_run_failed")
    assert "No subnets of account … have addresses" in entry.error["message"]
    assert "Request ID" not in entry.error["message"]
    conversation.sweep()
    assert conversation.left() == {}


LOST = {
    "it stops under its program": die_claimed("Host EC2 terminated", 137),
    "it is stopped in the middle of it": die_claimed("Task stopped by user", None),
    "its heartbeat is lost": silent_claimed,
}


@pytest.mark.parametrize("name", LOST)
def test_a_run_that_began_and_was_lost_is_reported_as_unknown(conversation, name):
    entry = play(conversation, LOST[name])
    assert (entry.status, entry.error["code"]) == ("unverified", "unverified")
    assert conversation.tasks.secrets == {}
    conversation.sweep()
    assert conversation.left() == {}


def test_a_run_with_a_timed_out_state_is_a_timeout(conversation):
    step = launched(conversation)
    Started(conversation, step.launch, "t").claim()
    conversation.act(failed(step, "States.Timeout", ""))
    assert result(conversation).error["code"] == "timeout"


REPORTED = {
    "exit 0": ({"returncode": 0}, ""),
    "exit 137": ({"returncode": 137}, "execution_failed"),
    "exit 137, judged": ({"returncode": 137, "error": "nonzero_exit"}, "nonzero_exit"),
    "no exit status": ({"returncode": None}, "execution_failed"),
    "out of memory": ({"returncode": -9, "error": "memory_limit"}, "memory_limit"),
    "a jail that does not close": ({"returncode": 126, "error": "isolation_failed"}, "isolation_failed"),
    "its time": ({"error": "timeout", "program_log": "so far\n"}, "timeout"),
}


@pytest.mark.parametrize("name", REPORTED)
def test_the_report_of_a_task_is_in_the_envelope(conversation, name):
    fields, code = REPORTED[name]
    play(conversation, ended(**fields, isolation=Isolation(backend="fargate", seccomp=True)))
    found = envelope(conversation)
    assert set(msgspec.to_builtins(found)) == KEYS
    assert (found.ok, found.code, found.backend) == (not code, code, "fargate")
    assert found.returncode == fields.get("returncode")
    assert conversation.left() == {}


def test_a_program_at_its_time_limit_keeps_its_files_and_output(conversation):
    play(conversation, ended(error="timeout", program_log="so far\n"))
    found = envelope(conversation)
    assert "so far" in found.user_out_tail
    assert [file.body.size_bytes for file in found.files] == [len(BODY)]


def test_files_that_are_not_there_though_the_run_is_are_an_error_of_collecting(conversation):
    def fate(task: Started) -> None:
        finish(task)
        del conversation.ports.artifacts.objects[key(conversation, FILES)]  # type: ignore[attr-defined]  # the memory twin's own

    play(conversation, fate)
    found = envelope(conversation)
    assert (found.ok, found.code, found.returncode) == (False, "collect_failed", 0)
    assert found.user_out_tail == "hello\n"
    assert conversation.left() == {}


@pytest.mark.parametrize("body", [b"", BODY[:-1], BODY + b"x", BODY.upper()])
def test_files_whose_bytes_differ_from_the_report_are_rejected(conversation, body):
    def fate(task: Started) -> None:
        finish(task)
        conversation.ports.artifacts.objects[key(conversation, FILES)] = body  # type: ignore[attr-defined]  # the memory twin's own

    play(conversation, fate)
    assert envelope(conversation).code == "collect_failed"
    assert envelope(conversation).files == ()


@pytest.mark.parametrize("report", [b"", b"{", b"[]", b'{"returncode": "zero"}'])
def test_a_report_that_cannot_be_read_is_an_error_of_collecting(conversation, report):
    def fate(task: Started) -> None:
        parcel = task.claim()
        task.task.objects.put(parcel.run, report)
        task.end()

    play(conversation, fate)
    assert envelope(conversation).code == "collect_failed"


def test_a_report_is_believed_though_the_task_died_before_it_could_say_so(conversation):
    def fate(task: Started) -> None:
        task.store(task.claim(), Run(returncode=0))
        task.stop("Host terminated", exits=None)

    assert play(conversation, fate).status == "ok"
    assert conversation.left() == {}


def test_a_supervisor_and_the_loop_understand_each_other(conversation):
    """The supervisor's own code, up to the program: that needs a container of its own, and says so."""

    def fate(task: Started) -> None:
        assert perform(task.task) == 0
        task.stop("Essential container in task exited", exits=0)

    entry = play(conversation, fate)
    assert entry.error["code"] == "sandbox_execution_failed"
    assert "container of its own" in entry.error["message"]
    assert conversation.left() == {}


# --- twice, late, and by others


def test_a_launch_that_is_tried_again_is_the_same_launch(conversation):
    conversation.send()
    step = conversation.decide(conversation.take()[1])
    first = conversation.act(step)
    assert conversation.act(replace(step, attempt=1)) == first
    assert len(first.launch.client_token) <= 64
    assert list(conversation.tasks.secrets) == [first.launch.secret]
    assert [(len(row.begun), row.done == row.begun) for row in conversation.tasks.rows.values()] == [
        (2, True)
    ]


def test_two_tasks_of_one_run_run_it_once(conversation):
    def fate(task: Started) -> None:
        second = Started(conversation, task.launch, task.token)
        conversation.tasks.secrets.update(
            {task.launch.secret: conversation.tasks.secrets[task.launch.secret]}
        )
        text = conversation.tasks.secrets[task.launch.secret]
        parcel = task.claim()
        conversation.tasks.secrets[task.launch.secret] = text
        assert not second.task.objects.put(second.take().started, b"{}")
        second.stop("Essential container in task exited", exits=0)
        task.store(parcel, Run(returncode=0))
        task.end()

    # The state hears of the second one's end first, and collects: the run has begun, and has not reported yet.
    assert play(conversation, fate).status in ("ok", "unverified")
    conversation.sweep()
    assert conversation.left() == {}


def test_a_task_that_comes_after_its_run_was_settled_finds_nothing_to_run(conversation):
    late: list[Started] = []
    play(conversation, late.append)
    with pytest.raises(NotFoundError):
        late[0].take()
    assert conversation.ports.artifacts.get(key(conversation, STARTED)) != b'{"by":"task"}'
    conversation.sweep()
    assert conversation.left() == {}


def test_a_run_whose_execution_ended_is_unverified_and_its_task_stopped(conversation):
    step = launched(conversation)
    task = Started(conversation, step.launch, "t")
    task.claim()
    (name,) = conversation.machine._status
    conversation.machine.end(name)
    assert sweep_lane(conversation.ports, LANE) == "taken_over"
    conversation.run()
    assert result(conversation).status == "unverified"
    assert conversation.tasks.secrets == {}
    assert conversation.sweep() == {"tasks_swept": 1}
    assert conversation.left() == {}


def test_a_run_taken_over_before_its_start_is_launched_with_a_new_token(conversation):
    step = launched(conversation)
    (name,) = conversation.machine._status
    conversation.machine.end(name)
    sweep_lane(conversation.ports, LANE)
    conversation.run()
    (again,) = conversation.launched
    assert (again.ref, again.secret) == (step.launch.ref, step.launch.secret)
    assert again.client_token != step.launch.client_token
    assert result(conversation).status == "ok"
    assert conversation.left() == {}


def test_a_run_with_an_unread_report_is_collected_by_the_next_driver(conversation):
    step = launched(conversation)
    task = Started(conversation, step.launch, "t")
    task.store(task.claim(), Run(returncode=0))
    task.end()
    (name,) = conversation.machine._status
    conversation.machine.end(name)
    sweep_lane(conversation.ports, LANE)
    conversation.run()
    assert result(conversation).status == "ok"
    assert conversation.launched == []
    assert conversation.left() == {}


def test_a_handover_that_cannot_be_revoked_is_left_to_the_sweeper(conversation, monkeypatch):
    def away(_ref: str) -> None:
        raise DependencyError("the service is away")

    with monkeypatch.context() as patch:
        patch.setattr(conversation.tasks, "take_back", away)
        assert play(conversation).status == "ok"
    assert set(conversation.left()) == {"rows"}
    assert conversation.sweep() == {"tasks_swept": 1}
    assert conversation.left() == {}


def test_a_sweep_that_fails_for_one_handover_continues_with_the_next(conversation, monkeypatch):
    stop = conversation.tasks.stop
    for ref in ("a" * 32, "b" * 32):
        conversation.tasks.hand_over(ref, "{}", cluster="c", deadline="2026-01-01T00:00:00.000Z")

    def throttled(ref: str, cluster: str, reason: str) -> int:
        if ref.startswith("a"):
            raise DependencyError("throttled")
        return stop(ref, cluster, reason)

    with monkeypatch.context() as patch:
        patch.setattr(conversation.tasks, "stop", throttled)
        assert conversation.sweep() == {"tasks_failed": 1, "tasks_swept": 1}
    assert conversation.sweep() == {"tasks_swept": 1}
    assert conversation.left() == {}


# --- refused before anything is written


def refused(conversation: TaskConversation) -> Resulted:
    entry = play(conversation)
    assert conversation.launched == []
    assert conversation.left() == {}
    assert not [stored for stored in conversation.ports.artifacts.objects if stored.startswith("exec/")]  # type: ignore[attr-defined]  # the memory twin's own
    return entry


def test_a_handover_that_no_secret_holds_is_refused(conversation):
    conversation.configure(
        PROFILE, descriptors=lambda: {"STEPLINE_RUNTIME_ASSEMBLY_YAML_B64": "x" * SECRET_MAX_BYTES}
    )
    assert refused(conversation).error["code"] == "payload_too_large"


@pytest.mark.parametrize("field", ["cluster", "task_definition", "container_name", "subnets"])
def test_a_deployment_without_task_settings_names_the_missing_ones(conversation, field):
    nothing: Any = () if field == "subnets" else ""
    conversation.configure(replace(PROFILE, task=replace(PROFILE.task, **{field: nothing})))
    entry = refused(conversation)
    assert entry.error["code"] == "fargate_config_missing"
    assert field in entry.error["message"]


@pytest.mark.parametrize(
    ("placement", "places"), [("inline", {"remote"}), ("remote", {"inline"}), ("inline", set())]
)
def test_a_placement_that_is_not_here_is_refused_and_never_waited_for(conversation, placement, places):
    conversation.configure(replace(PROFILE, placement=placement), places=frozenset(places))
    assert refused(conversation).error["code"] == "backend_unavailable"


def test_a_placement_that_went_away_in_mid_turn_ends_the_run(conversation):
    step = launched(conversation)
    conversation.configure(PROFILE, places=frozenset({"inline"}))
    conversation.act(replace(step, route="prepare", launch=None))
    assert result(conversation).error["code"] == "backend_unavailable"
    assert conversation.tasks.secrets == {}
    conversation.sweep()
    assert conversation.left() == {}


def test_a_program_in_a_task_runs_no_longer_than_its_state_waits(conversation):
    conversation.configure(PROFILE, timeout_s=7200)
    play(conversation)
    (launch,) = conversation.launched
    request = json.loads(conversation.ports.artifacts.get(key(conversation, "request.json")))
    assert request["limits"]["timeout_s"] == 1500
    assert launch.cluster == "cluster"


def test_only_a_task_puts_its_report(conversation):
    play(conversation, silent)
    with pytest.raises(NotFoundError):
        conversation.ports.artifacts.get(key(conversation, RUN))


# --- over the services' own adapters


@pytest.fixture
def stored(conversation, aws) -> TaskConversation:
    """The same loop with its bodies, handovers and rights in AWS; a second of its own makes its turn one too."""
    aws.clock.pause(1)
    conversation.ports = dataclasses.replace(
        conversation.ports, artifacts=aws.artifacts, tasks=aws.tasks, grants=aws.grants, clock=aws.clock
    )
    return conversation


def kept(aws: Any, launch: TaskLaunch) -> bool:
    """Return True if the secret of a run exists."""
    try:
        aws.tasks.secrets.get_secret_value(SecretId=launch.secret)
    except aws.tasks.secrets.exceptions.ResourceNotFoundException:
        return False
    return True


def put(grant: ObjectGrant, body: bytes) -> int:
    return requests.put(grant.url, data=body, headers=grant.headers, timeout=60).status_code


def test_a_run_passes_through_the_rights_it_was_handed_and_nothing_of_it_is_left(stored, aws):
    step = launched(stored)
    handover = msgspec.json.decode(aws.task_token.take(step.launch.secret), type=Handover)
    parcel = msgspec.msgpack.decode(requests.get(handover.parcel.url, timeout=60).content, type=Parcel)
    assert (put(parcel.started, b"{}"), put(parcel.started, b"{}")) == (200, 412)
    path = parcel.request.contract[0].filename
    file = CollectedFile(path=path, sha256=hashlib.sha256(BODY).hexdigest(), size_bytes=len(BODY))
    assert put(parcel.files, BODY) == 200
    assert put(parcel.run, msgspec.json.encode(Run(returncode=0, files=(file,)))) == 200
    stored.act(step)
    assert result(stored).status == "ok"
    assert not kept(aws, step.launch)
    assert not [one for one in aws.tasks.stale(before="9999") if one.ref == step.launch.ref]


def test_a_run_that_was_lost_leaves_its_task_to_the_sweeper(stored, aws):
    step = launched(stored)
    assert kept(aws, step.launch)
    stored.act(failed(step, "States.HeartbeatTimeout", ""))
    assert result(stored).error["code"] == "sandbox_not_started"
    assert not kept(aws, step.launch)
    assert [one for one in aws.tasks.stale(before=utc(aws.clock.now())) if one.ref == step.launch.ref]
    assert sweep_tasks(stored.ports)["tasks_swept"] >= 1
    assert not [one for one in aws.tasks.stale(before="9999") if one.ref == step.launch.ref]


def test_a_throttled_check_of_a_stopped_task_is_raised_to_the_caller(stored, aws, faults):
    faults.answer(aws.tasks.ecs, "DescribeTasks", 400, {"__type": "ThrottlingException", "message": "…"})
    with pytest.raises(DependencyError):
        end_wait(stored.ports, StoppedTask(task="t", cluster="c", reason="Task stopped"))
