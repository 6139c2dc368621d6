"""A steer while a program runs: it ends, wherever it is, and one that has not begun never will."""

from __future__ import annotations

import pytest

from stepline.adapters.memory.model import MemoryModelClient
from stepline.errors import DependencyError
from stepline.loop.programs.interrupt import LOOKS, interrupt
from stepline.loop.programs.make_outcome import STARTED
from stepline.metrics import EXEC_SECONDS_SPARED, PROGRAMS_CANCELLED, PROGRAMS_FAILED, PROGRAMS_LOST
from stepline.model.entry import Closed, Resulted, Steered
from stepline.model.path import exec_key
from stepline.model.program.execution import Run
from stepline.model.program.task import STEERED
from stepline.tools.context import ToolOutput
from tests.support.conversation import LANE, Scene, answered, called, coded, tool
from tests.support.task_conversation import Started, TaskScene, failed, finish

HELLO = "print('hello')"


@pytest.fixture
def scene(tmp_path) -> TaskScene:
    return TaskScene(tmp_path, coded(HELLO, "totals.csv"), answered("as you wish"), answered("more"))


def beside(*script: str, run) -> Scene:
    """Return a scene whose programs run beside the functions, and whose first round has prepared one."""
    found = Scene(*script)
    found.programs(run)
    return found


def steer(scene: Scene, text: str = "do it otherwise", *, id: str = "s1"):  # noqa: A002 - reads best
    return scene.send(text, id=id, kind="steer")


def result(scene: Scene) -> Resulted:
    (entry,) = scene.entries(Resulted)
    return entry


def counted(scene: Scene, *names: str) -> tuple[float, ...]:
    counts = scene.ports.meter.counts
    return tuple(counts[name] for name in names)


# --- beside the functions


def test_a_program_that_is_steered_away_from_says_so_and_what_it_wrote_stays():
    def run(job):
        assert not job.cancel.requested
        steer(play)
        assert job.cancel.requested
        return Run(error="cancelled", message="stopped", returncode=-15, seconds=4.0, program_log="so far\n")

    play = beside(coded(HELLO, "totals.csv"), answered("as you wish"), run=run)
    play.send()
    play.run()
    entry = result(play)
    assert (entry.status, entry.error["code"]) == ("error", "cancelled")
    (report,) = [block.text for block in entry.blocks if "Status:" in block.text]
    assert "so far" in report
    assert "heed that before" in report
    assert [steered.phase for steered in play.entries(Steered)] == [""]
    counts = counted(play, PROGRAMS_CANCELLED, PROGRAMS_FAILED, PROGRAMS_LOST, EXEC_SECONDS_SPARED)
    assert counts == (1, 0, 0, 56.0)


def test_a_program_that_is_steered_away_from_before_its_state_is_entered_never_begins():
    play = beside(coded(HELLO, "totals.csv"), answered("as you wish"), run=lambda _: pytest.fail("it ran"))
    play.send()
    prepared = play.act(play.decide(play.take()[1]))
    assert prepared.route == "execute"
    steer(play)
    step = play.execute(prepared)
    assert play.backends["process"].jobs == []
    play.drive(play.act(step))
    assert result(play).error["code"] == "cancelled"
    assert "nothing happened" in result(play).error["message"]
    assert play.entries(Closed)[0].answer == "as you wish"


def test_a_steer_that_was_heeded_in_an_earlier_turn_keeps_no_program_from_running():
    def run(_):
        return Run(returncode=0, seconds=0.5)

    play = beside(answered("one"), coded(HELLO, "a.txt"), answered("done"), run=run)
    play.send()
    steer(play)
    play.run()
    play.send("again", id="m2")
    play.run()
    assert [job.cancel.requested for job in play.backends["process"].jobs] == [False]


@pytest.mark.parametrize("entered", [True, False])
def test_a_cancelled_program_is_not_launched_again_by_whoever_takes_the_turn_over(entered):
    play = beside(coded(HELLO, "totals.csv"), answered("as you wish"), run=lambda _: pytest.fail("it ran"))
    play.send()
    name, step = play.take()
    prepared = play.act(play.decide(step))
    steer(play)
    if entered:
        play.execute(prepared)
    play.machine.end(name)
    assert steer(play).duplicate
    play.clock.pause(3600)
    play.run()
    assert result(play).error["code"] == "cancelled"


def test_a_stop_ends_the_turn_behind_the_program():
    def run(_):
        steer(play, "")
        return Run(error="cancelled", message="stopped", returncode=-15, seconds=4.0)

    play = beside(coded(HELLO, "totals.csv"), run=run)
    play.send()
    play.run()
    (closed,) = play.entries(Closed)
    assert (closed.outcome, closed.reason) == ("completed", "stop")


# --- in a task


def test_a_steer_ends_the_wait_and_the_task_of_a_program_that_runs(scene):
    def fate(task: Started) -> None:
        task.claim()
        steer(scene)
        assert scene.tasks.ended[task.token][0] == STEERED

    scene.fate = fate
    scene.send()
    scene.run()
    entry = result(scene)
    assert (entry.status, entry.error["code"]) == ("unverified", "unverified")
    assert "user steered while the program ran" in entry.error["message"]
    assert scene.entries(Closed)[0].answer == "as you wish"
    scene.sweep()
    assert scene.left() == {}


def test_a_task_that_has_not_begun_yet_is_ended_and_nothing_happened(scene):
    def fate(task: Started) -> None:
        steer(scene)
        assert scene.tasks.ended[task.token][0] == STEERED

    scene.fate = fate
    scene.send()
    scene.run()
    entry = result(scene)
    assert (entry.status, entry.error["code"]) == ("error", "cancelled")
    assert "nothing happened" in entry.error["message"]
    assert counted(scene, PROGRAMS_CANCELLED, PROGRAMS_LOST, EXEC_SECONDS_SPARED) == (1, 0, 60.0)


def test_what_a_task_had_stored_before_it_was_ended_is_collected(scene):
    def fate(task: Started) -> None:
        task.store(task.claim(), Run(returncode=0, seconds=0.5))
        steer(scene)

    scene.fate = fate
    scene.send()
    scene.run()
    assert result(scene).status == "ok"


def test_a_steer_that_comes_while_the_run_is_handed_over_launches_nothing(scene, monkeypatch):
    hand_over = scene.tasks.hand_over

    def steered(*args, **fields):
        steer(scene)  # and there is no row yet that would tell of a task
        return hand_over(*args, **fields)

    monkeypatch.setattr(scene.tasks, "hand_over", steered)
    scene.send()
    scene.run()
    assert scene.launched == []
    assert result(scene).error["code"] == "cancelled"
    scene.sweep()
    assert scene.left() == {}


def test_a_task_that_is_not_listed_yet_finds_no_handover(scene):
    scene.send()
    step = scene.act(scene.decide(scene.take()[1]))
    before_s = scene.clock.monotonic_s()
    steer(scene)
    assert scene.clock.monotonic_s() - before_s == LOOKS - 1
    assert scene.tasks.secrets == {}
    scene.drive(failed_after(scene, step))
    assert result(scene).error["code"] == "cancelled"


def failed_after(scene, step):
    """Let the task come up that was being started, and its own end end the state."""
    scene.tasks.waiting.add("late")
    late = Started(scene, step.launch, "late")
    with pytest.raises(Exception, match="no such handover"):
        late.take()
    assert late.stop("Essential container in task exited", exits=1)
    return scene.act(failed(step, *scene.tasks.ended["late"]))


def test_a_task_that_is_listed_late_is_found(scene, monkeypatch):
    pause = scene.clock.pause
    scene.send()
    step = scene.act(scene.decide(scene.take()[1]))
    scene.tasks.waiting.add("t")

    def listed(seconds: float) -> None:
        pause(seconds)
        if not scene.tasks.tasks:
            Started(scene, step.launch, "t")

    monkeypatch.setattr(scene.clock, "pause", listed)
    steer(scene)
    assert scene.tasks.ended["t"][0] == STEERED


def test_a_steer_that_comes_again_ends_nothing_twice(scene):
    said = []

    def fate(task: Started) -> None:
        task.claim()
        said.append(steer(scene))

    scene.fate = fate
    scene.send()
    scene.run()
    kinds = scene.kinds()
    ended = dict(scene.tasks.ended)
    assert interrupt(scene.ports, LANE, said[0].batch) is False
    assert steer(scene).duplicate
    assert (scene.kinds(), scene.tasks.ended) == (kinds, ended)


def test_a_steer_that_nobody_could_pass_on_is_in_the_log_and_passed_on_when_it_comes_again(
    scene, monkeypatch
):
    fails = [DependencyError("no answer")]
    cluster = scene.tasks.cluster

    def ask(ref: str) -> str:
        if fails:
            raise fails.pop()
        return cluster(ref)

    def fate(task: Started) -> None:
        task.claim()
        steer(scene)
        assert task.token in scene.tasks.waiting
        steer(scene)
        assert task.token not in scene.tasks.waiting

    monkeypatch.setattr(scene.tasks, "cluster", ask)
    scene.fate = fate
    scene.send()
    scene.run()
    assert [one.message_id for one in scene.entries(Steered)] == ["s1"]


def test_a_message_that_does_not_steer_ends_nothing(scene):
    def fate(task: Started) -> None:
        scene.send("by the way", id="m2")
        finish(task)

    scene.fate = fate
    scene.send()
    scene.run()
    assert result(scene).status == "ok"


def test_a_steer_while_no_program_runs_asks_for_no_task(scene, monkeypatch):
    monkeypatch.setattr(scene.tasks, "cluster", lambda _: pytest.fail("asked"))
    began = []

    def buy(_):
        began.append(scene.state.running)
        steer(scene)
        return ToolOutput()

    scene.use(tool("test.buy", "once", buy))
    scene.model = MemoryModelClient(called("test.buy"), answered("as you wish"))
    scene.send()
    scene.run()
    assert all(began)
    assert [steered.message_id for steered in scene.entries(Steered)] == ["s1"]


def test_a_denied_run_stays_denied_when_its_step_is_tried_again(scene, monkeypatch):
    scene.send()
    step = scene.act(scene.decide(scene.take()[1]))
    steer(scene)
    key = exec_key(LANE, scene.state.turn, scene.state.running, STARTED)
    put = scene.log.put

    def lost(*_, **__):
        raise DependencyError("no answer")

    monkeypatch.setattr(scene.log, "put", lost)
    with pytest.raises(DependencyError):
        scene.act(failed(step, STEERED, ""))
    assert scene.ports.artifacts.get(key)
    monkeypatch.setattr(scene.log, "put", put)
    scene.act(failed(step, STEERED, ""))
    assert result(scene).error["code"] == "cancelled"
