"""The handover to a task: names in the state, the parcel's location in the secret, rights to objects in the parcel."""

import dataclasses

import msgspec
import pytest
from msgspec.structs import replace

from stepline.errors import DependencyError, SteplineError
from stepline.loop.programs import program
from stepline.loop.programs import remote as launch_module
from stepline.loop.programs.remote import GRANT_S, WAIT_S, readable_keys, start_task
from stepline.loop.sweep import sweep_lane
from stepline.model.batch import decode_batch
from stepline.model.entry import Resulted
from stepline.model.path import exec_key
from stepline.model.program.execution import WorkFile
from stepline.model.program.handover import Handover, Parcel, run_ref
from tests.support.conversation import LANE
from tests.support.generation import answered, called, coded
from tests.support.log_builder import LogBuilder
from tests.support.task_conversation import TaskConversation, finish

HELLO = "print('hello')"


@pytest.fixture
def play(tmp_path):
    write = called("react.write", {"path": "in.csv", "content": "x,y"})
    return TaskConversation(tmp_path, write, coded(HELLO, "totals.csv"), answered("done"))


def test_a_run_that_reported_leaves_nothing_for_the_sweeper(play):
    play.fate = finish
    play.send()
    play.run()
    assert play.entries(Resulted)[-1].status == "ok"
    assert play.left() == {}


@pytest.fixture
def step(play):
    """The step that starts the program's task, after a round that wrote a file."""
    play.send()
    step = play.act(play.decide(play.take()[1]))
    return play.act(play.decide(step))


def handover(play, step):
    return msgspec.json.decode(play.tasks.secrets[step.launch.secret], type=Handover)


def parcel(play, step):
    return msgspec.msgpack.decode(play.grants.get(handover(play, step).parcel), type=Parcel)


def test_the_state_gets_names_only(play, step):
    (decided,) = [play.state.running]
    assert step.route == "execute_task"
    assert step.launch.ref == run_ref(LANE, play.state.turn, decided)
    assert step.launch.client_token == f"{step.launch.ref}-{step.epoch}"
    said = msgspec.json.encode(step).decode()
    assert HELLO not in said
    assert "GET" not in said


def test_the_parcel_holds_the_request_and_the_log_up_to_it(play, step):
    found = parcel(play, step)
    assert found.request.code == HELLO
    batches = [decode_batch(body) for body in found.batches]
    assert [batch.n for batch in batches] == list(range(1, found.request.n + 1))


def test_the_parcel_has_a_right_to_each_object_of_the_run_and_to_the_files_it_finds(play, step):
    found = parcel(play, step)

    def name(grant):
        return grant.url.split(" ")[2]

    rights = {name(found.started), name(found.run), name(found.files)}
    run = found.request.exec_id
    assert rights == {
        exec_key(LANE, play.state.turn, run, file) for file in ("started.json", "run.json", "files.bin")
    }
    (file,) = found.request.files
    assert play.grants.get(found.reads[file.key]) == b"x,y"


def test_secret_and_parcel_hold_no_way_to_the_table_the_bucket_or_the_model(play, step):
    assert handover(play, step).settings == {}
    assert handover(play, step).descriptors == {}
    assert set(parcel(play, step).reads) == {file.key for file in parcel(play, step).request.files}


def test_secrets_of_a_tasks_tools_are_read_at_the_handover(play):
    execution = dataclasses.replace(play.agent.execution, secrets=lambda: {"STEPLINE_SEARCH_API_KEY": "k3y"})
    play.agent = dataclasses.replace(play.agent, execution=execution)
    assert "k3y" not in repr(play.agent)
    play.send()
    step = play.act(play.decide(play.take()[1]))
    assert handover(play, play.act(play.decide(step))).settings == {"STEPLINE_SEARCH_API_KEY": "k3y"}


@pytest.mark.parametrize(
    ("refusal", "reported"),
    [
        (DependencyError("no room"), ("TaskNotStarted", "no room")),
        (SteplineError("not allowed"), ("TaskRefused", "not allowed")),
    ],
)
def test_a_task_that_is_not_started_ends_the_wait_and_says_whether_to_try_again(
    play, step, refusal, reported
):
    play.tasks.refusals.append(refusal)
    play.tasks.waiting |= {"first", "second"}
    start_task(play.ports, step, "first")
    assert play.tasks.ended == {"first": reported}
    assert play.tasks.tasks == {}
    start_task(play.ports, replace(step, attempt=1), "second")
    ((name, task),) = play.tasks.tasks.items()
    assert name.endswith(f"{step.launch.client_token}-1")
    assert dict(task.variables) == {
        "STEPLINE_TASK_TOKEN": "second",
        "STEPLINE_EXEC_PAYLOAD_SECRET_ID": step.launch.secret,
    }
    assert "second" in play.tasks.waiting


def test_a_step_that_leaves_the_state_carries_no_launch(play, step):
    after = play.act(play.execute_task(step))
    assert after.launch is None


def settled(play):
    """Return the error of the program's result, and whether anything is left after the sweep."""
    (error,) = [entry.error for entry in play.entries(Resulted) if entry.program]
    play.sweep()
    return error["code"], play.left()


def lose_owner(play):
    """End the execution of the turn, and let another take it over."""
    (name,) = play.machine._status
    play.machine.end(name)
    assert sweep_lane(play.ports, LANE) == "taken_over"


def test_a_machine_without_a_state_for_tasks_does_not_loop(play, step):
    back = play.decide(step)
    assert back.route == "prepare"
    assert play.act(back).route == "decide"
    assert settled(play) == ("sandbox_not_started", {})


def test_a_step_that_is_tried_again_launches_again(play, step):
    assert play.act(replace(step, route="prepare", launch=None, attempt=1)) == step


def test_a_run_taken_over_within_its_rights_is_relaunched(play, step):
    play.clock.pause(GRANT_S - WAIT_S - 60)
    lose_owner(play)
    play.run()
    assert [launch.ref for launch in play.launched] == [step.launch.ref]


def test_a_run_whose_rights_end_too_early_is_not_relaunched(play, step):
    play.clock.pause(GRANT_S - WAIT_S + 60)
    lose_owner(play)
    play.run()
    assert play.launched == []
    assert settled(play) == ("sandbox_not_started", {})


def test_an_old_request_with_ended_rights_is_not_launched(play):
    play.send()
    step = play.decide(play.act(play.decide(play.take()[1])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "start", lost)
        with pytest.raises(DependencyError):
            play.act(step)
    play.clock.pause(GRANT_S)
    assert play.act(step).route == "decide"
    assert settled(play) == ("sandbox_not_started", {})


def lost(*_, **__):
    raise DependencyError("the table is away")


def wrote(*names):
    """Return a conversation whose calls wrote these files, one each, oldest first, and the files as a workspace."""
    log = LogBuilder()
    log.message("write")
    log.act(*(("react.write", {"path": name}) for name in names))
    for name in names:
        log.result(blocks=(log.file(name, key=f"out/{name}"),))
    return log, tuple(
        WorkFile(
            path=f"{log.turn}/outputs/{name}", key=f"out/{name}", sha256="", size_bytes=1, mime="text/plain"
        )
        for name in names
    )


def test_a_run_may_read_its_files_and_the_newest_artifacts_first(monkeypatch, request_of):
    log, files = wrote("a", "b", "c", "d")
    monkeypatch.setattr(launch_module, "READS_MAX", 2)
    keys = readable_keys(log.timeline(), replace(request_of, files=files[:1]))
    assert keys == ("out/a", "out/d", "out/c")


def test_an_artifact_that_is_named_twice_is_granted_once(request_of):
    log, files = wrote("a", "b")
    log.act(("react.write", {"path": "a"}))
    log.result(blocks=(log.file("a", key="out/a"),))
    assert readable_keys(log.timeline(), replace(request_of, files=files)) == ("out/a", "out/b")


@pytest.fixture
def request_of(play, step):
    return parcel(play, step).request
