"""What a task owes to the state that waits for it, as AWS answers it. What is handed over: test_task.py."""

from __future__ import annotations

import logging

import pytest

from stepline.adapters.aws.task_token import AwsTaskToken
from stepline.errors import DependencyError, NotFoundError, SteplineError

from .conftest import Memory

TRIES = 3
SAYS = {"beat": "SendTaskHeartbeat", "end": "SendTaskSuccess"}


@pytest.fixture
def duty(aws) -> AwsTaskToken:
    return AwsTaskToken()


def test_a_state_hears_a_task_until_it_has_ended():
    duty = Memory().duty
    duty.waiting.add("token")
    assert duty.beat("token")
    assert duty.end("token")
    assert not duty.beat("token")
    assert not duty.end("token")


@pytest.mark.parametrize("word", SAYS)
@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_a_state_that_does_not_wait_is_no_error(duty, faults, word, code):
    faults.answer(duty.states, SAYS[word], 400, {"__type": code})
    assert not getattr(duty, word)("token")


@pytest.mark.parametrize("word", SAYS)
def test_a_state_that_waits_has_heard(duty, faults, word):
    faults.answer(duty.states, SAYS[word], 200, {})
    assert getattr(duty, word)("token")


@pytest.mark.parametrize("word", SAYS)
@pytest.mark.parametrize(("status", "kind"), [(503, DependencyError), (400, SteplineError)])
def test_a_state_that_cannot_be_told_is_an_error(duty, faults, word, status, kind):
    faults.answer(
        duty.states, SAYS[word], status, {"__type": "AccessDeniedException" if status == 400 else "Down"}
    )
    with pytest.raises(kind):
        getattr(duty, word)("token")


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "InvalidRequestException"])
def test_a_handover_that_is_gone_or_going_is_not_found(duty, faults, code):
    faults.answer(duty.secrets, "GetSecretValue", 400, {"__type": code})
    with pytest.raises(NotFoundError):
        duty.take("secret")


def test_a_handover_that_cannot_be_deleted_is_taken_all_the_same(duty, faults, caplog):
    caplog.set_level(logging.WARNING)
    faults.answer(duty.secrets, "GetSecretValue", 200, {"SecretString": "text"})
    faults.answer(duty.secrets, "DeleteSecret", 500, {"__type": "InternalServiceError"})
    assert duty.take("secret") == "text"
    assert [record.message for record in caplog.records] == ["handover not deleted"]
