"""`stepline replay`: its settings, its table and its exit code."""

import json
from zipfile import ZipFile

import boto3
import pytest
from botocore.stub import Stubber
from click.testing import CliRunner

from stepline.errors import AuthError
from stepline.local import caller
from stepline.local.cloud.deployment import Deployment, save_deployment
from stepline.local.command import batches as logview
from stepline.local.command.cli import main
from stepline.local.command.content import recorded_source
from stepline.local.command.content.recorded_source import read_variables
from stepline.local.command.content.replay import (
    HEAD_LINE,
    choose_settings,
    render_turn_report,
    summarise_reports,
)
from stepline.local.exported_files import plan_files
from stepline.local.named_files import write_files
from stepline.local.scripted.server import ScriptedServer
from stepline.local.stage import deployed
from stepline.model.batch import FORMAT
from stepline.replay.record_file import ConversationRecord, write_record_file
from stepline.replay.turn_report import RoundReport, Spent, TurnReport
from stepline.settings import Settings
from stepline.timeline.export import export_conversation
from stepline.timeline.fold import Timeline
from tests.support.aws import Aws, moto
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, called

KEY = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
NOTHING = {"bundle": "", "version": None, "layout": None}


def report(outcome, where="", **fields):
    given = {"answer_recorded": "One.", "answer_replayed": "One.", "asked": 0, **fields}
    return TurnReport(
        conversation="c-1",
        turn_id="turn_1",
        outcome=outcome,
        where=where,
        rounds=(RoundReport(iteration=0),),
        closes_differ=(),
        recorded=Spent(input_tokens=1_000, output_tokens=20, usd=0.5),
        replayed=Spent(input_tokens=900, output_tokens=30, usd=0.25),
        **given,
    )


def test_each_turn_has_a_line_with_both_costs_and_the_last_line_counts():
    (line,) = render_turn_report(report("equal"))
    assert HEAD_LINE.split() == ["turn", "outcome", "rounds", "tokens", "dollars"]
    assert line.split() == ["turn_1", "equal", "1", "1,020", "→", "930", "0.5000", "→", "0.2500"]
    assert summarise_reports([report("equal")]) == "1 of 1 turn equal, 0 calls of a model"


def test_a_turn_that_differs_has_its_place_and_both_answers():
    shown = list(
        render_turn_report(
            report("differs", "turn_1, round 0: another answer", answer_replayed="Two.", asked=1)
        )
    )
    assert shown[1:] == ["  turn_1, round 0: another answer", "  - One.", "  + Two."]


def test_a_replay_has_the_settings_of_the_stage():
    variables = {"STEPLINE_BUNDLE": "shop", "AI_REACT_MAX_ITERATIONS": "7"}
    assert choose_settings(variables, bundle="", choices=NOTHING) == Settings.from_env(variables)


def test_a_choice_is_stronger_than_the_properties_of_the_bundle():
    variables = {"STEPLINE_BUNDLE_PROPS": '{"react": {"agent_version": "v2", "multi_action": "off"}}'}
    chosen = choose_settings(variables, bundle="", choices={**NOTHING, "version": "v3", "layout": "journal"})
    assert chosen.bundle_props["config"]["react"] == {"agent_version": "v3", "context": {"layout": "journal"}}
    assert chosen.bundle_props["react"]["multi_action"] == "off"


def test_another_bundle_replaces_that_of_the_conversation():
    variables = {"STEPLINE_BUNDLE": "shop", "STEPLINE_BUNDLES": '{"docs": "bundles.docs"}'}
    assert choose_settings(variables, bundle="docs", choices=NOTHING).bundle == "bundles.docs"
    chosen = choose_settings(variables, bundle="docs", choices={**NOTHING, "bundle": "mine"})
    assert chosen.bundle == "mine"


@pytest.fixture
def conversation():
    """Return a conversation with two turns."""
    conversation = Conversation(
        called("react.read", {"paths": ["fi:x"]}), answered("Done."), answered("Yes.")
    )
    for n in range(2):
        conversation.send("what is new?", id=f"m{n}")
        conversation.run()
    return conversation


@pytest.fixture
def run(conversation, monkeypatch):
    """Run the command on the conversation; return its exit code and its output."""
    monkeypatch.setattr(caller, "find_stage", lambda: None)
    monkeypatch.setattr(caller, "TENANT", LANE.tenant)
    monkeypatch.setattr(caller, "PROJECT", LANE.project)
    monkeypatch.setattr(logview, "open_log", lambda _: (conversation.log, conversation.ports.artifacts))
    monkeypatch.setattr(recorded_source, "local_variables", lambda _: {})

    def invoke(*arguments, names=(LANE.conversation,)):
        done = CliRunner().invoke(main, ["replay", *names, *arguments])
        return done.exit_code, done.output

    return invoke


def test_a_conversation_without_a_change_is_equal_and_the_exit_code_is_zero(run):
    code, output = run()
    assert (code, output.splitlines()[-1]) == (0, "2 of 2 turns equal, 0 calls of a model")


def test_one_turn_is_replayed_as_json(run):
    code, output = run("--turn", "2", "--json")
    (line,) = map(json.loads, output.splitlines())
    assert (code, line["outcome"], line["answer_replayed"]) == (0, "equal", "Yes.")


@pytest.mark.parametrize(("threshold", "exit_code"), [("0", 1), ("99", 1), ("100", 0)])
def test_turns_that_differ_set_the_exit_code_above_the_threshold(run, threshold, exit_code):
    code, output = run("--version", "v2", "--threshold", threshold)
    assert code == exit_code
    assert "round 0: another request, first in system" in output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--turn", "3"), "turn_not_found"), (("--bundle", "bundles.gone"), "bundle_not_found")],
)
def test_a_replay_that_cannot_be_is_one_sentence_with_a_code(run, arguments, code):
    exit_code, output = run(*arguments)
    assert (exit_code, output.startswith(f"error: {code}: "), len(output.splitlines())) == (1, True, 1)


def lose_texts(conversation):
    conversation.ports.artifacts.objects.clear()


def erase_first(conversation):
    conversation.log.batches[LANE.key()][0] = None


def write_newer(conversation):
    stored = conversation.log.batches[LANE.key()]
    stored[3] = json.dumps({**json.loads(stored[3]), "v": FORMAT + 1}).encode()


def forget(conversation):
    conversation.log.batches.clear()


@pytest.mark.parametrize(
    ("damage", "arguments", "code", "said"),
    [
        (
            lose_texts,
            ("--version", "v2"),
            "record_incomplete",
            "TURN, round 0, batch 7: a text of the record is gone",
        ),
        (erase_first, (), "record_incomplete", "begins with batch 2"),
        (write_newer, (), "format_newer", f"format {FORMAT + 1}"),
        (forget, (), "not_found", "there is no conversation c-"),
        (lambda _: None, ("--bundle", "tests.support"), "bundle_invalid", "tests.support"),
    ],
    ids=["texts", "batches", "newer", "gone", "bundle"],
)
def test_a_record_that_cannot_be_replayed_has_its_code_and_no_row(
    run, conversation, *, damage, arguments, code, said
):
    turn = list(conversation.timeline().turns)[1]
    damage(conversation)
    exit_code, output = run(*arguments)
    (line,) = output.splitlines()
    assert (exit_code, line.startswith(f"error: {code}: ")) == (1, True)
    assert said.replace("TURN", turn) in line
    (row,) = map(json.loads, run(*arguments, "--json")[1].splitlines())
    assert (row["frame"], row["code"]) == ("error", code)


def test_a_named_model_is_asked_about_every_decision_at_the_address_of_the_stage(run, monkeypatch):
    with ScriptedServer(token_delay_ms=0) as server:
        variables = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "any"}
        monkeypatch.setattr(recorded_source, "local_variables", lambda _: variables)
        code, output = run("--turn", "2", "--model", "claude-opus-4-8", "--effort", "low", "--json")
    (line,) = map(json.loads, output.splitlines())
    assert (code, line["outcome"], line["asked"] > 0) == (1, "differs", True)
    assert line["answer_replayed"] not in ("", line["answer_recorded"])


# --- records in files


@pytest.fixture
def record(conversation, tmp_path):
    """Return the path of the conversation's record."""
    path = tmp_path / "records/a.zip"
    path.parent.mkdir()
    write_record_file(
        path,
        ConversationRecord(
            log=conversation.log, artifacts=conversation.ports.artifacts, lane=LANE, variables={}
        ),
    )
    return path


def test_a_conversation_is_exported_as_a_record_that_replays_without_the_stage(run, tmp_path, monkeypatch):
    path = tmp_path / "b.zip"
    done = CliRunner().invoke(main, ["export", LANE.conversation, "--record", str(path)])
    assert (done.exit_code, done.output) == (0, f"{path}\n")
    monkeypatch.setattr(logview, "open_log", None)
    code, output = run(names=(str(path),))
    assert (code, output.splitlines()[-1]) == (0, "2 of 2 turns equal, 0 calls of a model")


def test_a_folder_and_a_conversation_are_one_table_with_one_threshold(run, record):
    names = (str(record.parent), LANE.conversation)
    code, output = run(names=names)
    assert [line for line in output.splitlines() if not line.startswith("turn")] == [
        *(str(record), LANE.conversation, "4 of 4 turns equal, 0 calls of a model")
    ]
    assert code == 0
    assert run("--version", "v2", names=names)[0] == 1
    assert run("--version", "v2", "--threshold", "100", names=names)[0] == 0


def test_one_conversation_that_cannot_be_replayed_is_a_line_and_the_others_are_replayed(run, record):
    code, output = run(names=("c-none", str(record)))
    assert code == 1
    assert "c-none\n  not_found: there is no conversation c-none\n" in output
    assert output.splitlines()[-1] == "2 of 2 turns equal, 1 conversation not replayed, 0 calls of a model"
    code, output = run("--json", names=("c-none", str(record)))
    rows = [json.loads(line) for line in output.splitlines()]
    assert (code, rows[0]["record"], rows[0]["code"]) == (1, "c-none", "not_found")
    assert [row["outcome"] for row in rows[1:]] == ["equal", "equal"]
    assert run("--turn", "1", names=("c-none", str(record)))[0] == 2


def test_an_export_of_a_conversation_or_a_user_lacks_the_requests_and_names_turn_and_round(
    run, conversation, tmp_path
):
    documents = list(export_conversation(Timeline.empty(LANE).extended(conversation.batches()), ttl_s=300))
    files = plan_files(documents, conversation.ports.artifacts, LANE)
    list(write_files(tmp_path / "export", files, overwrite=False))
    with ZipFile(tmp_path / "user.zip", "w") as archive:
        for name, read in files.items():
            archive.writestr(f"conversations/c-1/documents/{name}", read())
    for path in (tmp_path / "export", tmp_path / "user.zip"):
        code, output = run(names=(str(path),))
        turns = [str(path), min(Timeline.empty(LANE).extended(conversation.batches()).turns)]
        assert (code, output.startswith(f"error: record_incomplete: {', '.join(turns)}, round 0: ")) == (
            1,
            True,
        )


@pytest.mark.parametrize("name", ["empty", "none.zip", "none/x"])
def test_a_path_without_a_record_is_refused(run, tmp_path, name):
    (tmp_path / "empty").mkdir()
    code, output = run(names=(str(tmp_path / name),))
    assert (code, output.startswith(f"error: record_invalid: {tmp_path / name}")) == (1, True)


# --- a deployed stage


def test_a_conversation_of_a_deployed_stage_is_read_with_the_callers_credentials(
    run, conversation, tmp_path, monkeypatch
):
    with moto():
        aws = Aws()
        for batch in conversation.batches():
            aws.log.put(LANE, batch)
        for key, body in conversation.ports.artifacts.objects.items():
            aws.artifacts.put(key, body, mime="text/plain")
        outputs = {"TableName": aws.name, "BucketName": aws.name}
        save_deployment(tmp_path, Deployment(stage="dev", account="1", region="us-east-1", outputs=outputs))
        monkeypatch.setattr(deployed, "HOME", tmp_path)
        monkeypatch.setattr(recorded_source, "read_variables", lambda _, stage: {"STEPLINE_STAGE": stage})
        there = ("--stage", "dev", "--tenant", LANE.tenant, "--project", LANE.project)
        code, output = run(*there)
        assert (code, output.splitlines()[-1]) == (0, "2 of 2 turns equal, 0 calls of a model")
        done = CliRunner().invoke(
            main, ["export", LANE.conversation, "--record", str(tmp_path / "a.zip"), *there]
        )
        assert (done.exit_code, (tmp_path / "a.zip").is_file()) == (0, True)
        assert run("--stage", "dev")[0] == 2
        assert run("--stage", "prod", "--tenant", "t")[1].startswith("error: not_deployed: ")


def test_the_settings_of_a_deployed_stage_are_those_outside_its_package():
    functions = boto3.client("lambda", region_name="us-east-1", **KEY)
    name = {"FunctionName": "stepline-dev-decide"}
    with Stubber(functions) as stub:
        variables = {"Variables": {"STEPLINE_STAGE": "dev", "STEPLINE_BUNDLE_PROPS": "@props.json"}}
        stub.add_response("get_function_configuration", {"Environment": variables}, name)
        assert read_variables(functions, "dev") == {"STEPLINE_STAGE": "dev"}
        stub.add_client_error("get_function_configuration", "AccessDenied")
        with pytest.raises(AuthError) as caught:
            read_variables(functions, "dev")
    assert caught.value.reason == "cloud_account"
