"""The metrics of a program: counted once for each settled run, by the cause of its end."""

import pytest

from stepline.loop.programs.remote import sweep_tasks
from stepline.metrics import EXEC_SECONDS, HANDOVERS_STALE, PROGRAMS_FAILED, PROGRAMS_LOST, PROGRAMS_RUN
from stepline.model.program.execution import Run
from stepline.programs.envelope import is_lost, lost_envelope
from tests.support.conversation import Conversation
from tests.support.generation import answered, coded
from tests.unit.programs.program_run import ProgramRun as Spool
from tests.unit.programs.program_run import promised


def counted(run):
    play = Conversation(coded("print('hello')", "totals.csv"), answered("done"))
    play.programs(lambda _: run)
    play.send()
    play.run()
    counts = play.ports.meter.counts
    return tuple(counts[name] for name in (PROGRAMS_RUN, PROGRAMS_FAILED, PROGRAMS_LOST, EXEC_SECONDS))


def test_a_program_that_fails_by_itself_is_not_lost():
    assert counted(Run(returncode=1, error="nonzero_exit", seconds=2.0)) == (1, 1, 0, 2.0)


def test_a_program_whose_environment_fails_is_lost():
    assert counted(Run(error="sandbox_not_started", seconds=0.0)) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        ("timeout", False),
        ("memory_limit", False),
        ("unverified", True),
        ("backend_unavailable", True),
        ("fargate_run_failed", True),
    ],
)
def test_the_code_distinguishes_program_and_environment_failures(tmp_path, code, lost):
    request = Spool(spool=tmp_path, contract=promised("a.csv")).request
    assert is_lost(lost_envelope(request, code, "…")) is lost


def test_a_success_is_not_lost(tmp_path):
    conversation = Spool(spool=tmp_path, contract=promised("a.csv"))
    conversation.left("outputs/a.csv", "1,2\n")
    assert not is_lost(conversation.envelope())


def test_an_abandoned_handover_is_counted_when_it_is_swept():
    play = Conversation()
    play.ports.tasks.hand_over("ref", "{}", cluster="cluster", deadline="2000-01-01T00:00:00.000Z")
    assert sweep_tasks(play.ports) == {"tasks_swept": 1}
    assert sweep_tasks(play.ports) == {}
    assert play.ports.meter.counts[HANDOVERS_STALE] == 1
