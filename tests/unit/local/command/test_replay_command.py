"""`stepline replay`: its settings, its table and its exit code."""

import json

import pytest
from click.testing import CliRunner

from stepline.local import caller
from stepline.local.command import batches as logview
from stepline.local.command.cli import main
from stepline.local.command.content import replay as command
from stepline.local.command.content.replay import choose_settings, render_reports
from stepline.local.scripted.server import ScriptedServer
from stepline.replay.turn_report import RoundReport, Spent, TurnReport
from stepline.settings import Settings
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, called

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
    head, line, last = render_reports([report("equal")])
    assert head.split() == ["turn", "outcome", "rounds", "tokens", "dollars"]
    assert line.split() == ["turn_1", "equal", "1", "1,020", "→", "930", "0.5000", "→", "0.2500"]
    assert last == "1 of 1 turn equal, 0 calls of a model"


def test_a_turn_that_differs_has_its_place_and_both_answers():
    shown = list(
        render_reports(
            [report("differs", "turn_1, round 0: another answer", answer_replayed="Two.", asked=1)]
        )
    )
    assert shown[2:5] == ["  turn_1, round 0: another answer", "  - One.", "  + Two."]


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
def run(monkeypatch):
    """Run the command on a conversation with two turns; return its exit code and its output."""
    conversation = Conversation(
        called("react.read", {"paths": ["fi:x"]}), answered("Done."), answered("Yes.")
    )
    for n in range(2):
        conversation.send("what is new?", id=f"m{n}")
        conversation.run()
    monkeypatch.setattr(caller, "find_stage", lambda: None)
    monkeypatch.setattr(caller, "TENANT", LANE.tenant)
    monkeypatch.setattr(caller, "PROJECT", LANE.project)
    monkeypatch.setattr(logview, "open_log", lambda _: (conversation.log, conversation.ports.artifacts))
    monkeypatch.setattr(command, "read_variables", lambda _: {})

    def invoke(*arguments):
        done = CliRunner().invoke(main, ["replay", LANE.conversation, *arguments])
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


def test_a_named_model_is_asked_about_every_decision_at_the_address_of_the_stage(run, monkeypatch):
    with ScriptedServer(token_delay_ms=0) as server:
        variables = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "any"}
        monkeypatch.setattr(command, "read_variables", lambda _: variables)
        code, output = run("--turn", "2", "--model", "claude-opus-4-8", "--effort", "low", "--json")
    (line,) = map(json.loads, output.splitlines())
    assert (code, line["outcome"], line["asked"] > 0) == (1, "differs", True)
    assert line["answer_replayed"] not in ("", line["answer_recorded"])
