"""The message for the model about a run without an outcome, which reveals little of the account."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.loop.programs.make_outcome import (
    CAUSE_CHARS,
    CUT_SHORT,
    NOT_RUN,
    NOT_WANTED,
    explain_loss,
    trim_cause,
)
from stepline.model.program.handover import STEERED

ERRORS = ["TaskNotStarted", "TaskRefused", "Ecs.EcsException", "ECS.AmazonECSException", "AmazonECS.Unknown"]


@pytest.mark.parametrize("name", ERRORS)
def test_a_task_that_was_not_started_is_named_with_its_cause(name):
    code, message = explain_loss(
        {"Error": name, "Cause": "Capacity is unavailable at this time."}, begun=False
    )
    assert code == "fargate_run_failed"
    assert "Capacity is unavailable at this time" in message


@pytest.mark.parametrize("name", [*ERRORS, "States.HeartbeatTimeout", "TaskStopped", "Lambda.Unknown", ""])
def test_a_run_that_began_may_have_happened_for_any_error(name):
    assert explain_loss({"Error": name, "Cause": "x"}, begun=True)[0] == "unverified"


@pytest.mark.parametrize(
    "error", [None, {}, {"Error": "TaskStopped"}, {"Error": "States.Timeout"}, {"Error": 7, "Cause": None}]
)
def test_a_run_that_never_began_did_nothing_for_any_error(error):
    code, message = explain_loss(error, begun=False)
    assert code == "sandbox_not_started"
    assert NOT_RUN in message


@pytest.mark.parametrize(
    "error", [None, {"Error": "States.HeartbeatTimeout"}, {"Error": "TaskStopped", "Cause": "x"}]
)
def test_a_run_that_never_began_because_the_user_steered_is_cancelled_and_did_nothing(error):
    assert explain_loss({"Error": STEERED}, begun=False) == ("cancelled", NOT_WANTED)
    assert explain_loss(error, begun=False, steered=True) == ("cancelled", NOT_WANTED)


def test_a_run_that_began_and_was_ended_by_a_steer_may_have_happened_and_says_why():
    assert explain_loss({"Error": STEERED}, begun=True) == ("unverified", CUT_SHORT)


def test_a_time_limit_of_the_state_is_one_of_the_run():
    assert explain_loss({"Error": "States.Timeout"}, begun=True)[0] == "timeout"


@pytest.mark.parametrize(
    ("cause", "left"),
    [
        (
            "The cluster arn:aws:ecs:eu-west-1:123456789012:cluster/c was not found. (Service: Ecs, Status Code: 400)",
            "The cluster … was not found",
        ),
        ("pull 123456789012.dkr.ecr.eu-west-1.amazonaws.com/x:1 failed", "pull … failed"),
        ("request 01234567-89ab-cdef-0123-456789abcdef was lost", "request … was lost"),
        ("task 0123456789abcdef0123456789abcdef stopped", "task … stopped"),
        ("first line\nsecond line", "first line"),
        ("OutOfMemoryError: container killed", "OutOfMemoryError: container killed"),
    ],
)
def test_a_cause_names_no_account_and_no_resource(cause, left):
    assert trim_cause(cause) == left


@given(st.text())
def test_any_cause_is_one_short_line(cause):
    trimmed = trim_cause(cause)
    assert len(trimmed) <= CAUSE_CHARS
    assert "\n" not in trimmed
