"""Recordings of evaluation sets: the model's answers are written beside each case, and play it again for nothing."""

import json

import pytest

from stepline.local.evaluation.case_file import find_cases
from stepline.local.evaluation.evaluated_model import open_model
from stepline.local.evaluation.evaluation import evaluate_cases

CASE = """\
about: A plan.
settings: {AI_REACT_MAX_ITERATIONS: 'ROUNDS'}
so_far: [{message: I am Ada., answer: 'Hello, Ada.'}]
steps:
  - message: Make a plan with three steps.
  - message: And what is my name?
checks:
  - called: {tool: react.plan, status: ok}
"""


@pytest.fixture
def play(tmp_path):
    """Play the case; return its only run."""

    def run(model, *, records=False, rounds="9", more=""):
        (tmp_path / "plan.yaml").write_text(CASE.replace("ROUNDS", rounds) + more)
        with open_model(model, records=records) as opened:
            report = evaluate_cases(find_cases(tmp_path), opened, bundle="bundles.default")
        (result,) = report.cases
        return result.runs[0]

    return run


def test_a_recorded_set_plays_without_a_model_and_has_the_same_answers(play, tmp_path, monkeypatch):
    first = play("scripted", records=True)
    assert (first.solved, (tmp_path / "plan.recording.json").is_file()) == (True, True)
    monkeypatch.setenv("STEPLINE_MODEL_ROLES", "{}")
    assert play("recorded") == first
    assert play("recorded") == first


def test_a_recording_has_no_setting_and_no_key(play, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPLINE_SEARCH_API_KEY", "search-key")
    play("scripted", records=True)
    text = (tmp_path / "plan.recording.json").read_text()
    assert "search-key" not in text
    assert json.loads(text)["calls"][0]["turn"] == 2


def test_another_request_fails_the_case_with_its_turn_its_round_and_its_part(play):
    play("scripted", records=True)
    run = play("recorded", rounds="8")
    assert not run.solved
    said = "replay_diverged: plan.recording.json, turn 2, round 1: another request, first in "
    assert run.error.startswith(said)


def test_sentences_are_judged_by_the_recorded_judge(play, monkeypatch):
    from stepline.local.scripted.server import ScriptedServer

    judged = "  - judge: The agent made a plan.\n"
    with ScriptedServer(token_delay_ms=0) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        first = play("claude-opus-4-8", records=True, more=judged)
    assert [one.key for one in first.failed] == ["checks[1]"]  # the scripted model judges nothing
    again = play("recorded", more=judged)
    assert (again.failed, again.left_out) == (first.failed, ())


def test_a_recording_without_a_judge_leaves_such_checks_out(play):
    play("scripted", records=True)
    run = play("recorded", more="  - judge: The agent made a plan.\n")
    assert (run.solved, run.left_out) == (True, ("checks[1]",))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (None, "recording_missing"),
        ("{", "recording_invalid"),
        ('{"format": 1, "clals": []}', "recording_invalid"),
        ('{"format": 99}', "format_newer"),
    ],
)
def test_a_recording_that_cannot_be_read_is_one_sentence_with_its_file_and_key(play, tmp_path, text, code):
    path = tmp_path / "plan.recording.json"
    if text is not None:
        path.write_text(text)
    run = play("recorded")
    assert run.error.startswith(f"{code}: ")
    assert str(path) in run.error
    assert ("clals" in run.error) == bool(text and "clals" in text)


def test_a_case_that_fails_to_run_writes_no_recording(play, tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    run = play("scripted", records=True, more="  - called: {tool: react.plan, times: 9}\n")
    assert not run.solved
    assert (tmp_path / "plan.recording.json").is_file()  # a failed check is not a failed run
    (tmp_path / "plan.recording.json").unlink()
    (tmp_path / "plan.yaml").unlink()
    (tmp_path / "b.yaml").write_text(
        "about: x\nsteps: [{approve: react.plan}]\nchecks: [{outcome: completed}]\n"
    )
    with open_model("scripted", records=True) as opened:
        (result,) = evaluate_cases(find_cases(tmp_path), opened, bundle="bundles.default").cases
    assert result.runs[0].error.startswith("approval_not_pending: ")
    assert [path.name for path in tmp_path.iterdir()] == ["b.yaml"]
