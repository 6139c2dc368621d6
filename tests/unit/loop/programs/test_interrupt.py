"""A steer while a program runs: the program ends in every placement, and one that has not begun never will."""

from __future__ import annotations

import pytest

from stepline.adapters.memory.model import MemoryModelClient
from stepline.errors import DependencyError
from stepline.ingress.delete import apply_deletion, redo_deletion
from stepline.loop.programs.interrupt import LOOKS, interrupt
from stepline.loop.programs.make_outcome import STARTED
from stepline.metrics import EXEC_SECONDS_SPARED, PROGRAMS_CANCELLED, PROGRAMS_FAILED, PROGRAMS_LOST
from stepline.model.entry import Closed, Resulted, SteeredEntry
from stepline.model.path import exec_key
from stepline.model.program.execution import Run
from stepline.model.program.handover import STEERED
from stepline.tools.context import ToolOutput
from tests.support.conversation import LANE, Conversation, tool
from tests.support.generation import answered, called, coded
from tests.support.task_conversation import Started, TaskConversation, failed, finish

HELLO = "print('hello')"


@pytest.fixture
def conversation(tmp_path) -> TaskConversation:
    return TaskConversation(tmp_path, coded(HELLO, "totals.csv"), answered("as you wish"), answered("more"))


def beside(*script: str, run) -> Conversation:
    """Return a conversation whose programs run beside the functions, and whose first round has prepared one."""
    found = Conversation(*script)
    found.programs(run)
    return found


def steer(conversation: Conversation, text: str = "do it otherwise", *, id: str = "s1"):  # noqa: A002 - reads best
    return conversation.send(text, id=id, kind="steer")


def result(conversation: Conversation) -> Resulted:
    (entry,) = conversation.entries(Resulted)
    return entry


def counted(conversation: Conversation, *names: str) -> tuple[float, ...]:
    counts = conversation.ports.meter.counts
    return tuple(counts[name] for name in names)


# --- beside the functions


def test_a_steered_program_says_so_and_keeps_its_files():
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
    assert [steered.phase for steered in play.entries(SteeredEntry)] == [""]
    counts = counted(play, PROGRAMS_CANCELLED, PROGRAMS_FAILED, PROGRAMS_LOST, EXEC_SECONDS_SPARED)
    assert counts == (1, 0, 0, 56.0)


def test_a_program_steered_before_its_state_never_begins():
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
def test_a_take_over_does_not_relaunch_a_cancelled_program(entered):
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


def test_a_stop_ends_the_turn_after_the_program():
    def run(_):
        steer(play, "")
        return Run(error="cancelled", message="stopped", returncode=-15, seconds=4.0)

    play = beside(coded(HELLO, "totals.csv"), run=run)
    play.send()
    play.run()
    (closed,) = play.entries(Closed)
    assert (closed.outcome, closed.reason) == ("completed", "stop")


# --- in a task


def test_a_steer_ends_the_wait_and_the_task_of_a_program_that_runs(conversation):
    def fate(task: Started) -> None:
        task.claim()
        steer(conversation)
        assert conversation.tasks.ended[task.token][0] == STEERED
        assert "tasks" not in conversation.left()

    conversation.fate = fate
    conversation.send()
    conversation.run()
    entry = result(conversation)
    assert (entry.status, entry.error["code"]) == ("unverified", "unverified")
    assert "user steered while the program ran" in entry.error["message"]
    assert conversation.entries(Closed)[0].answer == "as you wish"
    conversation.sweep()
    assert conversation.left() == {}


def test_a_deletion_ends_the_task_and_removes_its_secret(conversation):
    def fate(task: Started) -> None:
        apply_deletion(conversation.ports, LANE, conversation.tail.state.owner)
        assert task.token not in conversation.tasks.ended
        assert redo_deletion(conversation.ports, LANE)
        assert conversation.tasks.ended[task.token][0] == STEERED

    conversation.fate = fate
    conversation.send()
    conversation.run()
    assert conversation.entries(Resulted) + conversation.entries(Closed) == []
    conversation.sweep()
    assert conversation.left() == {}


def test_a_task_that_has_not_begun_yet_is_ended_and_nothing_happened(conversation):
    def fate(task: Started) -> None:
        steer(conversation)
        assert conversation.tasks.ended[task.token][0] == STEERED

    conversation.fate = fate
    conversation.send()
    conversation.run()
    entry = result(conversation)
    assert (entry.status, entry.error["code"]) == ("error", "cancelled")
    assert "nothing happened" in entry.error["message"]
    assert counted(conversation, PROGRAMS_CANCELLED, PROGRAMS_LOST, EXEC_SECONDS_SPARED) == (1, 0, 60.0)


def test_the_stored_report_of_an_ended_task_is_collected(conversation):
    def fate(task: Started) -> None:
        task.store(task.claim(), Run(returncode=0, seconds=0.5))
        steer(conversation)

    conversation.fate = fate
    conversation.send()
    conversation.run()
    assert result(conversation).status == "ok"


def test_a_steer_during_the_handover_launches_nothing(conversation, monkeypatch):
    hand_over = conversation.tasks.hand_over

    def steered(*args, **fields):
        steer(conversation)  # before there is a row of the task
        return hand_over(*args, **fields)

    monkeypatch.setattr(conversation.tasks, "hand_over", steered)
    conversation.send()
    conversation.run()
    assert conversation.launched == []
    assert result(conversation).error["code"] == "cancelled"
    conversation.sweep()
    assert conversation.left() == {}


def test_a_task_that_is_not_listed_yet_finds_no_handover(conversation):
    conversation.send()
    step = conversation.act(conversation.decide(conversation.take()[1]))
    before_s = conversation.clock.monotonic_s()
    steer(conversation)
    assert conversation.clock.monotonic_s() - before_s == LOOKS - 1
    assert conversation.tasks.secrets == {}
    conversation.drive(failed_after(conversation, step))
    assert result(conversation).error["code"] == "cancelled"


def failed_after(conversation, step):
    """Let the task that was being started come up, and end the state with its own end."""
    conversation.tasks.waiting.add("late")
    late = Started(conversation, step.launch, "late")
    with pytest.raises(Exception, match="no such handover"):
        late.take()
    assert late.stop("Essential container in task exited", exits=1)
    return conversation.act(failed(step, *conversation.tasks.ended["late"]))


def test_a_task_that_is_listed_late_is_found(conversation, monkeypatch):
    pause = conversation.clock.pause
    conversation.send()
    step = conversation.act(conversation.decide(conversation.take()[1]))
    conversation.tasks.waiting.add("t")

    def listed(seconds: float) -> None:
        pause(seconds)
        if not conversation.tasks.tasks:
            Started(conversation, step.launch, "t")

    monkeypatch.setattr(conversation.clock, "pause", listed)
    steer(conversation)
    assert conversation.tasks.ended["t"][0] == STEERED


def test_a_repeated_steer_ends_nothing_twice(conversation):
    said = []

    def fate(task: Started) -> None:
        task.claim()
        said.append(steer(conversation))

    conversation.fate = fate
    conversation.send()
    conversation.run()
    kinds = conversation.kinds()
    ended = dict(conversation.tasks.ended)
    assert interrupt(conversation.ports, LANE, said[0].batch) is False
    assert steer(conversation).duplicate
    assert (conversation.kinds(), conversation.tasks.ended) == (kinds, ended)


def test_a_steer_that_could_not_be_passed_on_is_passed_on_later(conversation, monkeypatch):
    fails = [DependencyError("no answer")]
    cluster = conversation.tasks.cluster

    def ask(ref: str) -> str:
        if fails:
            raise fails.pop()
        return cluster(ref)

    def fate(task: Started) -> None:
        task.claim()
        steer(conversation)
        assert task.token in conversation.tasks.waiting
        steer(conversation)
        assert task.token not in conversation.tasks.waiting

    monkeypatch.setattr(conversation.tasks, "cluster", ask)
    conversation.fate = fate
    conversation.send()
    conversation.run()
    assert [one.message_id for one in conversation.entries(SteeredEntry)] == ["s1"]


def test_a_message_that_does_not_steer_ends_nothing(conversation):
    def fate(task: Started) -> None:
        conversation.send("by the way", id="m2")
        finish(task)

    conversation.fate = fate
    conversation.send()
    conversation.run()
    assert result(conversation).status == "ok"


def test_a_steer_while_no_program_runs_asks_for_no_task(conversation, monkeypatch):
    monkeypatch.setattr(conversation.tasks, "cluster", lambda _: pytest.fail("asked"))
    began = []

    def buy(_):
        began.append(conversation.state.running)
        steer(conversation)
        return ToolOutput()

    conversation.use(tool("test.buy", "once", buy))
    conversation.model = MemoryModelClient(called("test.buy"), answered("as you wish"))
    conversation.send()
    conversation.run()
    assert all(began)
    assert [steered.message_id for steered in conversation.entries(SteeredEntry)] == ["s1"]


def test_a_denied_run_stays_denied_when_its_step_is_tried_again(conversation, monkeypatch):
    conversation.send()
    step = conversation.act(conversation.decide(conversation.take()[1]))
    steer(conversation)
    key = exec_key(LANE, conversation.state.turn, conversation.state.running, STARTED)
    put = conversation.log.put

    def lost(*_, **__):
        raise DependencyError("no answer")

    monkeypatch.setattr(conversation.log, "put", lost)
    with pytest.raises(DependencyError):
        conversation.act(failed(step, STEERED, ""))
    assert conversation.ports.artifacts.get(key)
    monkeypatch.setattr(conversation.log, "put", put)
    conversation.act(failed(step, STEERED, ""))
    assert result(conversation).error["code"] == "cancelled"
