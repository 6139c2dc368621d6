"""The test kit with a recording: a model is asked once, and its answers are given again."""

import json

import pytest

from stepline import BaseWorkflow, InputError
from stepline.adapters.memory.model import MemoryModelClient
from stepline.testing import Conversation, answer, call_tool


class Plain(BaseWorkflow):
    """An agent without parts of its own."""


ASKS = {"ANTHROPIC_API_KEY": "none", "STEPLINE_MODEL": "some"}
DECISIONS = (call_tool("react.read", {"paths": ["fi:x"]}), answer("It was not there."))


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording of one turn, by a model with a script."""
    path = tmp_path / "look.json"
    model = MemoryModelClient(*[one.text for one in DECISIONS])
    monkeypatch.setattr("stepline.testing.model_of", lambda _: model)
    with Conversation(Plain, recording=path, asks=ASKS) as conversation:
        assert conversation.run("Look.").answer == "It was not there."
    return path


def refused(path, message="Look.", **fields):
    with pytest.raises(InputError) as caught, Conversation(Plain, recording=path, **fields) as conversation:
        conversation.run(message)
    return caught.value


def test_a_recorded_turn_runs_again_without_a_model(recorded):
    with Conversation(Plain, recording=recorded) as conversation:
        turn = conversation.run("Look.")
    assert (turn.answer, len(turn.requests)) == ("It was not there.", 2)


def test_a_recording_holds_no_variable_of_the_model(recorded):
    assert "ANTHROPIC" not in recorded.read_text()


def test_a_changed_prompt_names_the_first_round_and_the_part_that_differs(recorded):
    error = refused(recorded, "Look again.")
    assert error.reason == "replay_diverged"
    assert "look.json, turn 1, round 1: another request, first in text" in str(error)


def test_a_turn_that_ends_early_names_the_answers_that_are_left(recorded, monkeypatch):
    body = json.loads(recorded.read_text())
    body["calls"].append(body["calls"][-1])
    recorded.write_text(json.dumps(body))
    assert refused(recorded).reason == "decisions_left"


def test_a_missing_recording_is_refused_without_a_model(tmp_path):
    assert refused(tmp_path / "none.json").reason == "recording_missing"


def test_a_run_that_fails_leaves_no_recording(tmp_path, monkeypatch):
    monkeypatch.setattr("stepline.testing.model_of", lambda _: MemoryModelClient(DECISIONS[1].text))
    path = tmp_path / "look.json"
    with pytest.raises(InputError), Conversation(Plain, recording=path, asks=ASKS) as conversation:
        conversation.run({"no": "message"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ("{", "recording_invalid", "is no recording"),
        ('{"format": 2}', "format_newer", "format 2"),
        ('{"format": 1, "call": []}', "recording_invalid", "call"),
        ('{"format": 1, "calls": [{"turn": "x"}]}', "recording_invalid", "$.calls[0].turn"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_its_place(tmp_path, body, code, place):
    path = tmp_path / "bad.json"
    path.write_text(body)
    error = refused(path)
    assert (error.reason, str(path) in str(error), place in str(error)) == (code, True, True)
