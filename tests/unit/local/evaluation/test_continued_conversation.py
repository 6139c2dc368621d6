"""Cases that continue a recorded conversation from a point, as a fork does."""

import re
from dataclasses import replace
from zipfile import ZipFile

import pytest
import yaml

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.errors import InputError
from stepline.local.evaluation import cut_case as cutting
from stepline.local.evaluation.case_file import Case, CaseCheck, CaseFile, CaseStep, find_cases
from stepline.local.evaluation.cut_case import CutConversation, cut_case
from stepline.local.evaluation.evaluated_model import open_model
from stepline.local.evaluation.evaluation import evaluate_cases, open_conversation
from stepline.replay.load_record import load_record
from stepline.replay.record_file import read_record_file, write_record_file
from stepline.timeline.fold import Timeline

PAST = Case(
    about="A conversation.",
    user="ada",
    settings={"STEPLINE_APPROVALS": '{"react.plan": "always"}'},
    steps=(
        CaseStep(message="Write a file note.md with grey herons and read it back.", files=("a.txt",)),
        CaseStep(message="Make a plan with three steps."),
        CaseStep(approve="react.plan"),
        CaseStep(message="Hello again."),
    ),
    checks=(CaseCheck(outcome="completed"),),
)
CONTINUED = """\
about: The rest of a conversation.
conversation:
  from: past.zip
  at: AT
steps:
  - message: Make a plan with three steps.
checks:
  - called: {tool: react.plan, status: ok, times: 1}
"""


@pytest.fixture(scope="module")
def model():
    with open_model("scripted") as opened:
        yield opened


@pytest.fixture(scope="module")
def past(model, tmp_path_factory):
    """Yield a conversation of three turns."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "a.txt").write_text("The ferry leaves at 7:40.")
    file = CaseFile(name="a", path=folder / "a.yaml", case=PAST)
    with open_conversation(file, PAST, model, "bundles.default") as opened:
        for step in PAST.steps:
            opened.play(step, folder)
        yield CutConversation(batches=opened.hydrated(), record=opened.record)


@pytest.fixture
def turns(past):
    return list(Timeline.empty(past.lane).extended(past.batches).turns)


@pytest.fixture
def play(past, model, tmp_path):
    """Play the case that begins at a point; return its run."""
    write_record_file(tmp_path / "past.zip", past.record)

    def run(at, text=CONTINUED):
        (tmp_path / "case.yaml").write_text(text.replace("AT", at))
        report = evaluate_cases(find_cases(tmp_path / "case.yaml"), model, bundle="bundles.default")
        (result,) = report.cases
        return result if result.broken else result.runs[0]

    return run


@pytest.fixture
def point(turns, past):
    """Return points of the conversation by name."""
    decided = [batch.n for batch in past.batches if batch.step.startswith("decide")]
    return {
        "before the second turn": f"{{turn: {turns[1]}, before: true}}",
        "after the first turn": f"{{turn: {turns[0]}}}",
        "within the first turn": f"{{round: {decided[1]}, before: true}}",
        "before its message": "{message: m0, before: false}",
        "a batch": "{batch: 3}",
        "while a call waits": f"{{batch: {next(b.n for b in past.batches if b.state.parked)}}}",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("before the second turn", "after the first turn", "within the first turn", "before its message"),
        *("a batch", "while a call waits"),
    ],
)
def test_a_case_begins_at_any_point_of_a_conversation(play, point, name):
    run = play(point[name])
    assert (run.error, run.solved) == ("", True)


def test_without_a_point_it_begins_at_the_end_and_has_the_files_of_the_conversation(play, tmp_path):
    text = CONTINUED.replace("  at: AT\n", "") + "  - file: {name: note.md, contains: [herons]}\n"
    assert play("", text).solved


def test_requests_have_the_conversation_before_and_its_owner(past, model, play, point, tmp_path):
    play(point["after the first turn"])
    (file,) = find_cases(tmp_path / "case.yaml")
    with open_conversation(file, file.case, model, "bundles.default") as opened:
        turn = opened.play(file.case.steps[0], tmp_path)
        assert "grey herons" in turn.played.requests[0]
        assert "Hello again" not in turn.played.requests[0]
        assert opened.workflow.user == "ada"
        times = [batch.at for batch in opened.hydrated()]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("at", "line", "said"),
    [
        ("{turn: turn_none}", 4, "fork_point_not_found: PATH, line 4: `conversation.at`: "),
        ("{batch: 999}", 4, "fork_beyond_end: PATH, line 4: `conversation.at`: "),
        ("{message: m-none}", 4, "fork_point_not_found: PATH, line 4: `conversation.at`: "),
        ("{trun: x}", 4, "case_invalid: PATH, line 4: `conversation.at.trun` is not a key of a case"),
        ("{turn: x, batch: 1}", 4, "case_invalid: PATH, line 4: `conversation.at` needs one of `batch`"),
        ("{before: true}", 4, "case_invalid: PATH, line 4: `conversation.at` needs one of `batch`"),
        ("{batch: 0}", 4, "case_invalid: PATH, line 4: `conversation.at.batch` is invalid"),
        (
            "{batch: 1}\n  form: x",
            5,
            "case_invalid: PATH, line 5: `conversation.form` is not a key of a case",
        ),
        ("{batch: 1}\nhistory: past.zip", 2, "case_invalid: PATH, line 2: `conversation` is instead of"),
    ],
)
def test_a_wrong_point_is_one_sentence_with_the_file_the_line_and_the_key(play, tmp_path, at, line, said):
    found = play(at)
    assert f"line {line}" in said
    shown = found.broken if hasattr(found, "broken") else found.error
    assert shown.startswith(said.replace("PATH", str(tmp_path / "case.yaml")))


def other_head(body):
    return lambda archive: archive.writestr("record.json", body)


@pytest.mark.parametrize(
    ("source", "write", "code"),
    [
        ("none.zip", None, "case_invalid"),
        ("../past.zip", None, "case_invalid"),
        ("a b", None, "case_invalid"),
        ("some-conversation", None, "not_deployed"),
        ("other.zip", other_head("{"), "record_invalid"),
        ("other.zip", other_head('{"format": 99}'), "format_newer"),
        (
            "other.zip",
            other_head('{"format": 1, "tenant": "t", "project": "p", "conversation": "c"}'),
            "record_incomplete",
        ),
    ],
)
def test_a_record_that_cannot_be_read_is_one_sentence_with_the_place_in_the_case(
    play, tmp_path, source, write, code
):
    if write:
        with ZipFile(tmp_path / source, "w") as archive:
            write(archive)
    found = play("{batch: 1}", CONTINUED.replace("past.zip", source))
    shown = found.broken if hasattr(found, "broken") else found.error
    assert re.match(rf"{code}: {re.escape(str(tmp_path))}/case.yaml, line 3: `conversation.from`", shown), (
        shown
    )


def test_a_turn_after_many_is_cut_as_a_record_up_to_it(past, turns, model, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "LONG_TURNS", 0)
    for at in (1, 2):
        paths = cut_case(past, turns[at], tmp_path, f"turn-{at}")
        assert paths == [str(tmp_path / f"turn-{at}.{end}") for end in ("zip", "yaml")]
    case = yaml.safe_load((tmp_path / "turn-2.yaml").read_text())
    assert case["conversation"] == {"from": "turn-2.zip"}
    record = read_record_file(tmp_path / "turn-2.zip")
    batches = load_record(record.log, record.artifacts, record.lane)
    assert list(Timeline.empty(record.lane).extended(batches).turns) == turns[:2]
    report = evaluate_cases(find_cases(tmp_path), model, bundle="bundles.default")
    assert [(one.name, one.broken, one.why) for one in report.cases] == [
        ("turn-1", "", ""),
        ("turn-2", "", ""),
    ]


def test_a_record_that_lacks_a_text_leaves_no_case(past, turns, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "LONG_TURNS", 0)
    poor = replace(past, record=replace(past.record, artifacts=MemoryArtifacts()))
    with pytest.raises(InputError) as caught:
        cut_case(poor, turns[1], tmp_path, "case")
    assert caught.value.reason == "record_incomplete"
    assert f"{turns[0]}, round 0, batch " in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_conversation_with_a_further_bundle_goes_on_with_the_agent_of_the_case(model, tmp_path):
    settings = {"STEPLINE_BUNDLE": "bundles.default", "STEPLINE_BUNDLES": '{"docs": "bundles.docs"}'}
    past = Case(about="x", settings=settings, bundle="bundles.docs", steps=(CaseStep(message="Hello."),))
    file = CaseFile(name="a", path=tmp_path / "a.yaml", case=past)
    with open_conversation(file, past, model, "bundles.default") as opened:
        opened.play(past.steps[0], tmp_path)
        assert opened.hydrated()[-1].state.bundle == "docs"
        write_record_file(tmp_path / "past.zip", opened.record)
    (tmp_path / "case.yaml").write_text(f"bundle: bundles.docs\n{CONTINUED.replace('  at: AT', '')}")
    (result,) = evaluate_cases(find_cases(tmp_path), model, bundle="bundles.default").cases
    assert (result.broken, result.why) == ("", "")
