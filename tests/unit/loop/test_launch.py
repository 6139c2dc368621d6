"""What a task is handed: names in the state, a way to the parcel in the secret, rights to single objects in the parcel."""

import msgspec
import pytest
from msgspec.structs import replace

from stepline.loop import launch as launch_module
from stepline.loop.launch import readable_keys
from stepline.model.batch import decode_batch
from stepline.model.execution import WorkFile
from stepline.model.path import exec_key
from stepline.model.task import Handover, Parcel, run_ref
from tests.unit.timeline.story import Story

from .scene import LANE, answered, called, coded
from .task_scene import TaskScene

HELLO = "print('hello')"


@pytest.fixture
def play(tmp_path):
    write = called("react.write", {"path": "in.csv", "content": "x,y"})
    return TaskScene(tmp_path, write, coded(HELLO, "totals.csv"), answered("done"))


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


def test_a_step_that_leaves_the_state_carries_no_launch(play, step):
    after = play.act(play.execute_task(step))
    assert after.launch is None


def wrote(*names):
    """Return a conversation whose calls wrote these files, one each, oldest first, and the files as a workspace."""
    told = Story()
    told.message("write")
    told.act(*(("react.write", {"path": name}) for name in names))
    for name in names:
        told.result(blocks=(told.file(name, key=f"out/{name}"),))
    return told, tuple(
        WorkFile(
            path=f"{told.turn}/outputs/{name}", key=f"out/{name}", sha256="", size_bytes=1, mime="text/plain"
        )
        for name in names
    )


def test_a_run_may_read_its_files_and_the_newest_artifacts_first(monkeypatch, request_of):
    told, files = wrote("a", "b", "c", "d")
    monkeypatch.setattr(launch_module, "READS_MAX", 2)
    keys = readable_keys(told.timeline(), replace(request_of, files=files[:1]))
    assert keys == ("out/a", "out/d", "out/c")


def test_an_artifact_that_is_named_twice_is_granted_once(request_of):
    told, files = wrote("a", "b")
    told.act(("react.write", {"path": "a"}))
    told.result(blocks=(told.file("a", key="out/a"),))
    assert readable_keys(told.timeline(), replace(request_of, files=files)) == ("out/a", "out/b")


@pytest.fixture
def request_of(play, step):
    return parcel(play, step).request
