"""Every row of the table of scenarios in the real loop, and every prompt that a test or a page sends."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.local.scripted import scenarios, script
from stepline.local.scripted.policy import LAST_ROUND
from stepline.local.scripted.scenarios import SCENARIOS, find_scenario
from stepline.local.scripted.speech import WHO_I_AM
from stepline.model.entry import Closed, Decided
from stepline.model.file.attachment import Attachment
from stepline.model.memory_row import MemoryRow, MemoryScope
from tests.e2e.project import CHANGE
from tests.e2e.sales import TOTALS, WRITE, table_of, totals_of
from tests.e2e.test_context import request_of
from tests.e2e.test_execution import RUN, WAITING
from tests.e2e.test_recovery import LONG
from tests.support.budget import budget
from tests.support.files import pdf, picture
from tests.support.script import SEARCHES, backwards, together
from tests.unit.docs.source import DOCS
from tests.unit.local.scripted.scripted_conversation import ScriptedConversation

HERONS, SALES = "Write a file note.md with grey herons.", "Write a CSV of sales over two months to sales.csv."
PAGE = (DOCS / "reference/scripted-model.md").read_text()
ROUNDS = {
    script.plan_and_file: [["plan"], ["write"], ["read"]],
    script.plan: [["plan"]],
    script.two_plans: [["plan"], ["plan"]],
    script.sent: [["read"]],
    script.write: [["write"], ["read"]],
    script.read: [["read"]],
    script.chart: [["write"], ["execute_code_python"]],
    script.in_euros: [],  # there are no totals
    script.best_month: [],
    script.steps: [["plan"], *[["write"]] * 8],
    script.approvals: [],
    script.write_sales: [["write"]],
    script.monthly_totals: [["pull"], ["execute_code_python"]],
    script.search: [["web_search"]],
    script.document: [["web_search"], ["write_pdf"]],
    script.remember: [["memsearch"]],
    script.look_up: [],  # the default bundle has no documents
    script.recall: [],
    script.given_program: [["execute_code_python"]],
    scenarios.anything_else: [],
}
SEVERAL = {script.two_plans: [["plan", "plan"]]}

every_row = pytest.mark.parametrize("row", SCENARIOS, ids=lambda row: row.script.__name__)


@pytest.mark.parametrize("mode", ["off", "safe_fanout"])
@every_row
def test_every_row_runs_through_the_loop(row, mode):
    chat = ScriptedConversation(HERONS, SALES, AI_REACT_AGENT_MULTI_ACTION=mode)
    answer = chat.say(row.example)
    expected = ROUNDS if mode == "off" else ROUNDS | SEVERAL
    assert chat.rounds()[2:] == expected[row.script]
    assert chat.notices() == []
    assert set(chat.statuses()) == {"ok"}
    assert answer.endswith(f"*{WHO_I_AM}*")
    assert ("I have no rule" in answer) == (row is SCENARIOS[-1])


@pytest.mark.parametrize(
    ("said", "rounds", "notices"),
    [
        (together("plum", "note.md"), [["write", "read", "plan", "plan"]], []),
        (SEARCHES, [["web_search", "web_search", "write"]], []),
        (backwards("plum", "note.md"), [["read"], ["write"]], ["multi_action_bundle_strategy_incompatible"]),
    ],
)
def test_the_calls_of_a_script_are_made_in_its_rounds(said, rounds, notices):
    chat = ScriptedConversation(HERONS, AI_REACT_AGENT_MULTI_ACTION="safe_fanout")
    chat.say(said)
    assert (chat.rounds()[1:], chat.notices()) == (rounds, notices)


def test_a_project_is_checked_out_patched_searched_and_run():
    chat = ScriptedConversation("Write a file files/app/birds.py with BIRD = 'heron'.")
    answer = chat.say(CHANGE.replace("@@ -40,2 +40,2 @@\\n BIRD_39 = 'sparrow'", "@@ -1 +1 @@"))
    assert chat.rounds()[1:] == [["checkout"], ["patch"], ["rg"], ["execute_code_python"]]
    assert set(chat.statuses()) == {"ok"}
    assert "1: BIRD = 'crane'" in answer


@every_row
def test_an_example_picks_its_row_and_three_suggestions_have_rows_too(row):
    suggested = ScriptedConversation(row.example).entries(Closed)[-1].followups
    picked = [find_scenario(text)[0] for text in (row.example, *suggested)]
    assert picked[0] is row
    assert len(picked) == 4
    assert SCENARIOS[-1] not in picked[1:]


@every_row
def test_the_page_has_the_example(row):
    assert row is SCENARIOS[-1] or f"*{row.example.partition(chr(10))[0]}*" in PAGE


def test_the_scenario_that_the_page_adds_works(monkeypatch):
    row, code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = dict(vars(script))
    exec(code, names)
    monkeypatch.setattr(script, "copy", names["copy"], raising=False)
    added = eval(row, dict(vars(scenarios)))
    monkeypatch.setattr(scenarios, "SCENARIOS", (added, *SCENARIOS))
    chat = ScriptedConversation(HERONS, added.example)
    assert chat.rounds()[1:] == [["read"], ["write"]]
    assert chat.stored("copy.md")[0] == b"grey herons"


# --- the prompts of end-to-end tests, measurements and pages


@pytest.mark.parametrize(
    ("said", "texts"),
    [
        ("Answer with one word.", ["Answer with one word."]),
        ("Tell me about the word plum.", ["plum", "not an AI"]),
        (LONG.format(word="plum"), ["Read the file back", "**plum**", "outputs/plan.md"]),
        (LONG.format(word="plum") + "\n\n" + "I say more than one batch can hold. " * 1_200, ["**plum**"]),
        ("Make a plan with three steps, write it to a file and read it back.", ["says: “# Plan"]),
        ("Please make a plan with 4 steps", ["4. Step 4"]),
        ('write a file b.json with "{}" and read it back', ["outputs/b.json` says: “{}”"]),
        (request_of(6, "plum"), ["says: “plum 6."]),
        (request_of(5, "plum"), ["[[S:1]]"]),
        ("Search for prompt caching and write what you find to a file cache.md", ["I wrote", "[[S:1]]"]),
        ("Read note.md, please.", ["grey herons"]),
        ("Read nowhere.md", ["could not read", "missing"]),
        (together("plum", "note.md"), ["lake.md", "grey herons"]),
        (backwards("plum", "note.md"), ["lake.md", "grey herons"]),
        ("A script:\n```script\n[]\n```", ["cannot read the script"]),
        ("What did I say before?", ["grey herons"]),
        ("Compute the monthly totals of none.csv and draw a chart", ["I see no file `none.csv`"]),
        (RUN.format("print('</channel:code>')"), ["cannot run"]),
    ],
)  # fmt: skip
def test_requests_of_other_tests_are_answered(said, texts):
    answer = ScriptedConversation(HERONS).say(said)
    assert [text for text in texts if text not in answer] == []


def test_the_word_in_an_answer_is_the_one_that_was_read():
    chat = ScriptedConversation()
    chat.begin(LONG.format(word="plum"), steps=4)  # planned, and the file is written
    text, key = chat.stored("plan.md")
    chat.ports.artifacts.objects[key] = text.replace(b"plum", b"pear")
    assert "**pear**" in chat.finish()


def test_several_are_sent_even_where_one_is_allowed_if_it_is_insisted_on():
    chat = ScriptedConversation(HERONS)
    answer = chat.say(together("plum", "note.md", insists=True))
    assert chat.notices() == ["multi_action_bundle_too_many_actions"]
    assert chat.rounds()[1:] == [["write"], ["read"], ["plan"], ["plan"]]
    assert "grey herons" in answer


def test_after_a_violation_it_goes_one_by_one():
    chat = ScriptedConversation(HERONS, AI_REACT_AGENT_MULTI_ACTION="safe_fanout")
    chat.model.spoiled = 1
    chat.say(together("plum", "note.md"))
    assert chat.rounds()[1] == ["write"]


def test_plans_are_in_the_same_round_as_the_answer():
    chat = ScriptedConversation(
        "Make two plans with two steps each, in one round.", AI_REACT_AGENT_MULTI_ACTION="safe_fanout"
    )
    (decision,) = chat.entries(Decided)
    assert (decision.action, len(decision.actions)) == ("complete", 2)
    assert "2. Choose what comes next" in chat.entries(Closed)[-1].answer


def test_memory_hits_are_reported_with_their_paths():
    conversation = ScriptedConversation("Write a file note.md with grey herons.")
    (turn,) = conversation.timeline().turns
    path = f"ar:{turn}.user.prompt"
    row = MemoryRow(
        conversation="c-1",
        turn=turn,
        kind="prompt",
        path=path,
        text="grey herons",
        at=conversation.tail.at,
        n=1,
    )
    conversation.ports.memory.add(MemoryScope(tenant="acme", project="support", user="ada"), [row])
    answer = conversation.say("What did we say about grey herons?")
    assert f"`{path}`, which is in view" in answer
    answer = conversation.say("What did we say about the moon in any conversation?")
    assert "I remember nothing about “the moon”." in answer


def test_a_sale_table_has_as_many_months_as_asked_and_other_figures_for_other_words():
    written = [
        ScriptedConversation(WRITE.format(word=word)).stored("sales.csv")[0] for word in ("tea", "tea", "ink")
    ]
    assert written[0] == written[1] != written[2]
    assert len(totals_of(written[0])) == 5
    assert written[0].startswith(b"date,region,units,amount\n")


# --- programs


def test_totals_are_those_that_the_program_printed():
    chat = ScriptedConversation(SALES)
    answer = chat.say(TOTALS)
    assert table_of(answer).keys() == {"2026-01"}
    pull, run = chat.actions()[1:]
    turn = pull.params["paths"][0].removeprefix("fi:").partition(".")[0]
    assert f'root / "{turn}/outputs/sales.csv"' in run.code
    compile(run.code, "program", "exec")
    assert "monthly_totals.png" in answer


@pytest.mark.parametrize(
    ("said", "files"),
    [
        (RUN.format("pass"), ["outputs/result.txt"]),
        (RUN.format("open('outputs/a.txt', 'w')"), ["outputs/a.txt"]),
        (RUN.replace(":", ", it writes files/c.txt:", 1).format("open('outputs/a.txt')"), ["files/c.txt"]),
    ],
)
def test_a_program_runs_unchanged_and_promises_the_named_files(said, files):
    chat = ScriptedConversation(said)
    (run,) = chat.actions()
    assert run.code in said
    assert [row["filename"] for row in run.params["contract"]] == files


def test_a_program_gets_its_time_and_the_files_of_earlier_turns_that_it_names():
    chat = ScriptedConversation(HERONS)
    turn = chat.entries(Closed)[-1].turn
    code = f"open('{turn}/outputs/note.md'); open('turn_none/outputs/x.csv')"
    chat.say(RUN.replace(":", " with a timeout of two seconds:", 1).format(code))
    pull, run = chat.actions()[1:]
    assert pull.params == {"paths": [f"fi:{turn}.outputs/note.md"]}
    assert run.params["timeout_s"] == 2


def test_a_program_that_fails_is_not_run_again_and_the_answer_says_why():
    chat = ScriptedConversation()
    chat.error, chat.printed = "nonzero_exit", "ValueError: plum\n```"
    answer = chat.say(RUN.format("1 / 0"))
    assert chat.statuses() == ["error"]
    assert "did not succeed: nonzero_exit" in answer
    assert "```text\nValueError: plum\n'''\n```" in answer


def test_an_interrupted_run_is_not_reported_as_done():
    chat = ScriptedConversation()
    chat.begin(RUN.format(WAITING.format(word="plum")), steps=2)
    chat.lose_run()
    assert "I cannot tell whether" in chat.finish()


def test_a_program_of_an_earlier_turn_is_read_from_where_it_is_in_sight():
    chat = ScriptedConversation(RUN.format("print('plum')\nprint(2)"))
    (run,) = chat.actions()
    assert "print('plum') print(2)" in chat.say(f"Read fi:{chat.entries(Closed)[-1].turn}.code.{run.call_id}")


def test_a_stage_without_programs_reports_the_missing_tool():
    answer = ScriptedConversation(EXEC_RUNTIME_MODE="none").say(RUN.format("pass"))
    assert "there is no tool `exec_tools.execute_code_python`" in answer


# --- while a turn runs


def test_a_followup_is_answered_after_the_previous_message():
    chat = ScriptedConversation()
    chat.begin(LONG.format(word="plum"))
    chat.hear(text=RUN.format("pass"))
    answer = chat.finish()
    assert [tool for (tool,) in chat.rounds()] == ["plan", "write", "read", "execute_code_python"]
    assert "**plum**" in answer
    assert "The program ran." in answer


def test_a_steer_ends_the_turn():
    chat = ScriptedConversation()
    chat.begin(LONG.format(word="plum"))
    chat.hear(text="be brief", kind="steer")
    assert "I stopped, as you asked: “be brief”." in chat.finish()
    assert chat.rounds() == [["plan"]]


def test_a_request_after_a_steer_continues_the_turn():
    chat = ScriptedConversation()
    chat.begin(LONG.format(word="plum"))
    chat.hear(text="be brief", kind="steer")
    chat.hear(text="Read plan.md.")
    chat.finish()
    assert chat.rounds()[0] == ["plan"]
    assert "outputs/plan.md" in chat.entries(Closed)[-1].answer


def test_an_event_is_reported_and_its_text_is_answered_if_reactive():
    chat = ScriptedConversation(HERONS)
    chat.hear(kind="alert", text="Make a plan with three steps.", reactive=False)
    attached = Attachment(filename="a.md", mime="text/markdown", size_bytes=1, sha256="0" * 64)
    chat.hear(kind="report", text="Read note.md.", reactive=True, attachments=(attached,))
    chat.hear(kind="form", payload={"city": "Bern"}, reactive=True)
    chat.run()
    answer = chat.entries(Closed)[-1].answer
    assert chat.rounds()[1:] == [["read"]]
    assert "I saw the event `alert`: “Make a plan" in answer
    assert "user.attachments/a.md`." in answer
    assert 'I saw the event `form`: “{"city":"Bern"}”.' in answer


def test_in_the_last_round_it_answers():
    assert LAST_ROUND in ScriptedConversation(AI_REACT_MAX_ITERATIONS="1").say(LONG.format(word="plum"))


@settings(max_examples=budget(25, 250), deadline=None)
@given(st.lists(st.text(max_size=200).filter(str.strip), min_size=1, max_size=3))
def test_every_conversation_gets_a_well_formed_round(said):
    chat = ScriptedConversation()
    for text in said:
        chat.say(text)
    assert chat.notices() == []


@pytest.mark.parametrize(
    ("name", "kind", "extent", "data"),
    [("square.png", "image", "64x48", picture()), ("square.pdf", "document", "2 pages", pdf(2))],
)
def test_a_program_output_is_read_back_and_sent_once(name, kind, extent, data):
    chat = ScriptedConversation(RUN.format(f"open('outputs/{name}', 'wb')"))
    answer = chat.say(f"Read {name}, please.")
    blocks = [block for block in chat.model.asked["messages"][0]["content"] if block["type"] != "text"]
    assert answer.startswith("I see `fi:")
    assert f"`: {extent}." in answer
    assert [block["type"] for block in blocks] == [kind]
    assert base64.b64decode(blocks[0]["source"]["data"]) == data


def test_a_picture_that_no_model_accepts_is_not_reported_as_seen():
    chat = ScriptedConversation(RUN.format("open('outputs/square.png', 'wb')"))
    _, key = chat.stored("square.png")
    chat.ports.artifacts.objects[key] = picture()[:40]
    assert "I could not read" in chat.say("Read square.png, please.")
