"""Programs: a run that is lost, changed or repeated fails, and so does an attempt to leave the jail that succeeds."""

import json
import subprocess
import sys

import pytest

from stepline.local.proof.escape_program import ATTEMPTS, PROGRAM
from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.proved_stage import NotRunError
from stepline.local.proof.row.program_rows import (
    CODE_EVENT,
    LOG,
    RESULT,
    find_run,
    judge_outcomes,
    judge_ran,
    read_outcomes,
)
from stepline.model.wire.event import ClientEvent

TEXT = "print(1)"
REFUSED = {name: accepted[0] for name, accepted in ATTEMPTS.items()}


class Recorded:
    """A client that has received these events."""

    def __init__(self, *events):
        self._events = events

    def events(self, kind):
        return [(1, event) for event in self._events if event.type == kind]


def event(kind, **data):
    return ClientEvent(type=kind, route="chat_step", ts="2026-01-01T00:00:00.000Z", data=data)


ASKED = event(CODE_EVENT, execution_id="a", text=f"{TEXT}\n")
PRINTED = event(LOG, execution_id="a", text="1\n")
DONE = event(RESULT, call_id="a", status="ok")
OTHER = event(RESULT, call_id="b", status="error", code="bad_path")


def test_the_run_of_a_program_is_found_by_its_text():
    ran = find_run(Recorded(ASKED, OTHER, PRINTED, DONE), TEXT)
    judge_ran(ran, "1")
    assert ran.call == "a"


@pytest.mark.parametrize(
    "events",
    [
        (ASKED, DONE),
        (ASKED, event(LOG, execution_id="b", text="1"), DONE),
        (ASKED, PRINTED, event(RESULT, call_id="a", status="error", code="timeout")),
        (ASKED, PRINTED),
        (ASKED, PRINTED, DONE, DONE),
    ],
    ids=["no output", "another's output", "failed", "no result", "two results"],
)
def test_a_program_without_its_one_result_fails(events):
    with pytest.raises(NotHeldError):
        judge_ran(find_run(Recorded(*events), TEXT), "1")


def test_a_program_that_the_model_runs_again_is_another_call():
    again = (
        event(CODE_EVENT, execution_id="b", text=TEXT),
        event(RESULT, call_id="b", status="error", code="timeout"),
    )
    judge_ran(find_run(Recorded(ASKED, PRINTED, DONE, *again), TEXT), "1")


@pytest.mark.parametrize(
    "events",
    [
        (),
        (event(CODE_EVENT, execution_id="a", text="print(2)"), DONE),
        (ASKED, event(RESULT, call_id="a", status="error", code="execution_unavailable")),
    ],
    ids=["not called", "another program", "no programs here"],
)
def test_a_program_that_did_not_run_proves_nothing(events):
    with pytest.raises(NotRunError):
        find_run(Recorded(*events), TEXT)


def test_a_jail_that_refuses_every_attempt_is_held():
    judge_outcomes(REFUSED)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_that_succeeds_or_was_not_made_fails(name):
    with pytest.raises(NotHeldError, match=name):
        judge_outcomes({**REFUSED, name: "reached ['1']"})
    with pytest.raises(NotHeldError, match=name):
        judge_outcomes({one: outcome for one, outcome in REFUSED.items() if one != name})


def test_attempts_that_are_not_reported_fail():
    for log, status in (("", "ok"), (json.dumps(REFUSED), "error")):
        ran = find_run(
            Recorded(
                ASKED, event(LOG, execution_id="a", text=log), event(RESULT, call_id="a", status=status)
            ),
            TEXT,
        )
        with pytest.raises(NotHeldError):
            read_outcomes(ran)


@pytest.mark.skipif(sys.platform != "linux", reason="the jail is made of Linux")
def test_without_a_jail_the_program_leaves_and_reports_every_attempt(tmp_path):
    (tmp_path / "outputs").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM],
        cwd=tmp_path,
        env={"AWS_SECRET_ACCESS_KEY": "x"},
        capture_output=True,
        text=True,
        check=True,
    )
    outcomes = json.loads(done.stdout)
    assert outcomes.keys() == ATTEMPTS.keys()
    reached = {name for name, outcome in outcomes.items() if outcome not in ATTEMPTS[name]}
    assert reached >= {"an IPv4 socket", "secrets in its environment", "a tool without the supervisor"}
    with pytest.raises(NotHeldError):
        judge_outcomes(outcomes)
