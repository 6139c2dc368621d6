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
def task_token(aws) -> AwsTaskToken:
    return AwsTaskToken()


def test_a_state_hears_a_task_until_it_has_ended():
    task_token = Memory().task_token
    task_token.waiting.add("token")
    assert task_token.beat("token")
    assert task_token.end("token")
    assert not task_token.beat("token")
    assert not task_token.end("token")


@pytest.mark.parametrize("word", SAYS)
@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_a_state_that_does_not_wait_is_no_error(task_token, faults, word, code):
    faults.answer(task_token.states, SAYS[word], 400, {"__type": code})
    assert not getattr(task_token, word)("token")


@pytest.mark.parametrize("word", SAYS)
def test_a_waiting_state_receives_the_result(task_token, faults, word):
    faults.answer(task_token.states, SAYS[word], 200, {})
    assert getattr(task_token, word)("token")


@pytest.mark.parametrize("word", SAYS)
@pytest.mark.parametrize(("status", "kind"), [(503, DependencyError), (400, SteplineError)])
def test_a_state_that_cannot_be_notified_is_an_error(task_token, faults, word, status, kind):
    faults.answer(
        task_token.states,
        SAYS[word],
        status,
        {"__type": "AccessDeniedException" if status == 400 else "Down"},
    )
    with pytest.raises(kind):
        getattr(task_token, word)("token")


@pytest.mark.parametrize("code", ["ResourceNotFoundException", "InvalidRequestException"])
def test_a_handover_that_is_gone_or_going_is_not_found(task_token, faults, code):
    faults.answer(task_token.secrets, "GetSecretValue", 400, {"__type": code})
    with pytest.raises(NotFoundError):
        task_token.take("secret")


def test_a_handover_that_cannot_be_deleted_is_still_claimed(task_token, faults, caplog):
    caplog.set_level(logging.WARNING)
    faults.answer(task_token.secrets, "GetSecretValue", 200, {"SecretString": "text"})
    faults.answer(task_token.secrets, "DeleteSecret", 500, {"__type": "InternalServiceError"})
    assert task_token.take("secret") == "text"
    assert [record.message for record in caplog.records] == ["handover not deleted"]
