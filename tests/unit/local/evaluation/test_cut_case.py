"""Cases that are cut out of a conversation: they play the turn again, after the same history."""

import pytest
import yaml

from stepline.errors import InputError, NotFoundError
from stepline.local.evaluation.case_file import (
    Case,
    CaseCheck,
    CaseFile,
    CaseStep,
    Meanwhile,
    PastTurn,
    find_cases,
)
from stepline.local.evaluation.cut_case import CutConversation, cut_case
from stepline.local.evaluation.evaluated_model import open_model
from stepline.local.evaluation.evaluation import evaluate_cases, open_conversation
from stepline.testing import LANE
from stepline.timeline.fold import Timeline

CASE = Case(
    about="A conversation.",
    settings={"STEPLINE_APPROVALS": '{"react.plan": "always"}'},
    so_far=(PastTurn(message="Hello.", answer="Hello."),),
    steps=(
        CaseStep(message="Read note.txt.", files=("note.txt",)),
        CaseStep(
            message="Write a file note.md with grey herons and read it back.",
            meanwhile=(Meanwhile(after_round=2, steer="Enough."),),
        ),
        CaseStep(message="Make a plan with three steps."),
        CaseStep(approve="react.plan"),
        CaseStep(message="Search for prompt caching and tell me what you find."),
    ),
    checks=(CaseCheck(outcome="completed"),),
)


@pytest.fixture(scope="module")
def model():
    with open_model("scripted") as opened:
        yield opened


@pytest.fixture(scope="module")
def conversation(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("conversation")
    (folder / "note.txt").write_text("The ferry leaves at 7:40.")
    file = CaseFile(name="a", path=folder / "a.yaml", case=CASE)
    with open_conversation(file, CASE, model, "bundles.default") as opened:
        for step in CASE.steps:
            opened.play(step, folder)
        yield CutConversation(batches=opened.hydrated(), record=opened.record)


@pytest.fixture
def turns(conversation):
    return list(Timeline.empty(LANE).extended(conversation.batches).turns)


def test_each_turn_becomes_a_case_that_passes(conversation, turns, model, tmp_path):
    for at, turn in enumerate(turns[1:], 1):
        cut_case(conversation, turn, tmp_path, f"turn-{at}")
    report = evaluate_cases(find_cases(tmp_path), model, bundle="bundles.default")
    assert [(one.name, one.broken, one.why) for one in report.cases] == [
        (f"turn-{at}", "", "") for at in range(1, 5)
    ]


def written(conversation, turn, folder):
    cut_case(conversation, turn, folder, "case")
    return yaml.safe_load((folder / "case.yaml").read_text())


def test_files_steers_and_approvals_are_steps(conversation, turns, tmp_path):
    files, steer, approval, cited = (written(conversation, turn, tmp_path / turn) for turn in turns[1:])
    assert files["steps"] == [{"message": "Read note.txt.", "files": ["case.files/note.txt"]}]
    assert steer["steps"][0]["meanwhile"] == [{"after_round": 2, "steer": "Enough."}]
    assert approval["steps"] == [{"message": "Make a plan with three steps."}, {"approve": "react.plan"}]
    assert {
        "cites": [
            "https://example.com/library/prompt-caching",
            "https://example.com/library/prompt-injection",
        ]
    } in (cited["checks"])


def test_the_history_ends_before_the_turn(conversation, turns, tmp_path):
    first = written(conversation, turns[0], tmp_path / "first")
    assert "history" not in first
    written(conversation, turns[2], tmp_path / "third")
    logs = sorted(path.stem for path in (tmp_path / "third/case.history/turn.log").iterdir())
    assert logs == sorted(turns[:2])


def test_an_existing_case_is_kept_and_nothing_is_written(conversation, turns, tmp_path):
    (tmp_path / "case.yaml").write_text("mine")
    with pytest.raises(InputError) as caught:
        cut_case(conversation, turns[2], tmp_path, "case")
    assert caught.value.reason == "file_exists"
    assert [path.name for path in tmp_path.iterdir()] == ["case.yaml"]
    assert (tmp_path / "case.yaml").read_text() == "mine"


def test_a_turn_that_does_not_exist_is_an_error(conversation, tmp_path):
    with pytest.raises(NotFoundError) as caught:
        cut_case(conversation, "turn_gone", tmp_path / "new", "case")
    assert caught.value.reason == "turn_not_found"
    assert not (tmp_path / "new").exists()


def test_a_turn_of_an_export_becomes_the_same_case_but_for_its_approvals(conversation, turns, tmp_path):
    from stepline.local.command.evaluate import _read_export
    from stepline.local.exported_files import plan_files
    from stepline.local.named_files import write_files
    from stepline.timeline.export import export_conversation

    documents = list(export_conversation(Timeline.empty(LANE).extended(conversation.batches), ttl_s=300))
    list(
        write_files(tmp_path / "export", plan_files(documents, conversation.artifacts, LANE), overwrite=False)
    )
    exported = _read_export(tmp_path / "export")
    for turn in (turns[1], turns[2], turns[4]):
        here, there = (
            written(one, turn, tmp_path / f"{name}-{turn}")
            for name, one in (("a", conversation), ("b", exported))
        )
        assert there == here
