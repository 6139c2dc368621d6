"""`stepline eval` at the edge: its words, exit codes, reports, and the files that it leaves."""

import json
import sys

import pytest

from stepline.local.command.cli import main
from stepline.local.command.content import recorded_source
from stepline.local.evaluation.case_file import find_cases
from stepline.replay.record_file import ConversationRecord, write_record_file
from tests.repository.test_house import ROOT
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered

CASE = """\
about: A greeting.
steps: [{message: Hello.}]
checks:
  - outcome: OUTCOME
"""


@pytest.fixture
def evaluate(tmp_path, monkeypatch, capsys):
    """Run `stepline eval` in a folder with a case; return its exit code, its output and its errors."""
    (tmp_path / "set").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*words, outcome="completed", model="scripted"):
        (tmp_path / "set/case.yaml").write_text(CASE.replace("OUTCOME", outcome))
        with pytest.raises(SystemExit) as ended:
            main(["eval", *words, "--model", model] if "add" not in words else ["eval", *words])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def test_a_folder_is_run_and_its_reports_are_written(evaluate, tmp_path):
    reports = ("--html", "a.html", "--junit", "a.xml", "--json-out", "a.json")
    code, out, _ = evaluate("set", "--repeat", "2", *reports)
    assert code == 0
    assert out.splitlines()[0] == "ok  case  2/2 (34% to 100%)"
    assert json.loads((tmp_path / "a.json").read_text())["cases"][0]["rate"] == 1.0
    assert {path.name for path in tmp_path.iterdir()} == {"set", "a.html", "a.xml", "a.json"}


def test_a_case_that_fails_is_exit_code_1(evaluate):
    code, out, _ = evaluate("run", "set", "--json", outcome="parked")
    (line,) = map(json.loads, out.splitlines())
    assert (code, line["ok"], line["runs"][0]["failed"][0]["key"]) == (1, False, "checks[0]")
    assert evaluate("set", "--threshold", "0", outcome="parked")[0] == 0


def test_a_baseline_fails_the_case_that_got_worse(evaluate):
    evaluate("set", "--json-out", "old.json")
    assert evaluate("set", "--baseline", "old.json")[0] == 0
    code, out, _ = evaluate("set", "--baseline", "old.json", outcome="parked")
    assert code == 1
    assert "worse than the baseline: 0% of the runs, 100% before" in out


def test_a_report_without_a_folder_is_refused_before_a_case_runs(evaluate):
    code, out, err = evaluate("set", "--html", "gone/a.html")
    assert (code, out) == (1, "")
    assert err.startswith("error: not_writable: ")


def test_an_unknown_turn_of_an_export_writes_nothing(evaluate, tmp_path):
    code, _, err = evaluate("add", "./set", "--turn", "turn_1")
    assert (code, err.split(":")[1].strip()) == (1, "import_nothing")
    assert not (tmp_path / "evals").exists()
    assert evaluate("add", "./set")[0] == 2
    assert evaluate("add", "./set", "--turn", "turn_1", "--name", "../a")[0] == 2


def test_a_set_is_recorded_once_and_played_from_its_recordings(evaluate):
    assert evaluate("set", model="recorded")[0] == 1
    assert evaluate("set", "--record")[0] == 0
    code, out, _ = evaluate("set", "--repeat", "2", model="recorded")
    assert (code, out.splitlines()[0]) == (0, "ok  case  2/2 (34% to 100%)")
    assert evaluate("set", "--record", "--repeat", "2")[0] == 2
    assert evaluate("set", "--record", model="recorded")[0] == 2


@pytest.fixture
def talk(monkeypatch):
    """Return a conversation of the local stage with two turns, and its record."""
    conversation = Conversation(answered("One."), answered("Two."))
    for n in range(2):
        conversation.send("Hello.", id=f"m{n}")
        conversation.run()
    found = ConversationRecord(
        log=conversation.log, artifacts=conversation.ports.artifacts, lane=LANE, variables={}
    )
    monkeypatch.setattr(recorded_source, "_find_local", lambda _: found)
    return conversation, found


def test_a_case_is_cut_out_of_a_conversation_and_out_of_its_record_alike(evaluate, talk, tmp_path):
    conversation, found = talk
    turn = list(conversation.timeline().turns)[1]
    write_record_file(tmp_path / "talk.zip", found)
    for source, out in ((LANE.conversation, "a"), ("talk.zip", "b")):
        assert evaluate("add", source, "--turn", turn, "--out", out, "--name", "two")[0] == 0
        assert evaluate(out)[0] == 0
    assert (tmp_path / "a/two.yaml").read_text() == (tmp_path / "b/two.yaml").read_text()


def test_a_case_continues_a_conversation_of_the_local_stage(evaluate, talk, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.yaml").write_text(
        f"{CASE.replace('OUTCOME', 'completed')}conversation: {{from: c-1}}\n"
    )
    assert evaluate("more")[0] == 0


def test_a_set_that_ships_is_found_from_any_folder(evaluate):
    code, out, _ = evaluate("evals/agent/recall-file.yaml")
    assert (code, out.splitlines()[0]) == (0, "ok  recall-file  1/1 (21% to 100%)")
    code, _, err = evaluate("evals/gone")
    assert (code, err) == (1, "error: cases_not_found: there is no folder evals/gone\n")


def test_every_case_that_ships_can_be_read():
    assert [file.error for file in find_cases(ROOT / "evals") if file.error] == []
