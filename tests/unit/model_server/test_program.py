"""Programs of the scripted model: which it writes, with what it runs them, and what it says of how they ended."""

from __future__ import annotations

import csv
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.local.scripted.goal import parse_goal
from stepline.local.scripted.policy import answer_prompt
from stepline.local.scripted.program import EXEC_TOOL
from stepline.local.scripted.prompt import parse_prompt
from stepline.local.scripted.table import find_table, sales_table
from stepline.protocol.parser.channel import read_channels

from .desk import Desk, report_of

TOTALS = "Compute the monthly totals of sales.csv and draw a chart."
PRINTED = "| month | total |\n|---|---:|\n| 2026-01 | 12.50 |\n| 2026-02 | 7.25 |\n"
RUN = "Run this program:\n```python\n{}\n```"


def tools(desk: Desk) -> list[str]:
    return [call["tool_id"] for call in desk.calls]


def with_sales() -> tuple[Desk, str]:
    """Return a conversation whose first turn wrote a table, and the table's path."""
    desk = Desk("Write a CSV of sales over four months to sales.csv.")
    desk.run()
    return desk, f"fi:{desk.turn}.outputs/sales.csv"


def test_it_writes_a_table_of_sales():
    desk, path = with_sales()
    (params,) = (call["params"] for call in desk.calls)
    assert (params["path"], params["kind"]) == ("sales.csv", "file")
    rows = list(csv.DictReader(desk.files[path].splitlines()))
    assert list(rows[0]) == ["date", "region", "units", "amount"]
    assert sorted({row["date"][:7] for row in rows}) == ["2026-01", "2026-02", "2026-03", "2026-04"]
    assert all(float(row["amount"]) > 0 for row in rows)


@given(st.text(max_size=20), st.integers(1, 24))
def test_a_table_depends_on_the_words_and_on_nothing_else(seed: str, months: int):
    assert sales_table(seed=seed, months=months) == sales_table(seed=seed, months=months)
    assert sales_table(seed=seed, months=months) != sales_table(seed=f"{seed}!", months=months)


def test_a_table_of_an_earlier_turn_is_pulled_and_summed_up():
    desk, path = with_sales()
    desk.say(TOTALS)
    desk.report = report_of(PRINTED)
    answer = desk.run()
    assert tools(desk) == ["react.write", "react.pull", EXEC_TOOL]
    assert desk.calls[1]["params"] == {"paths": [path]}
    contract = [row["filename"] for row in desk.calls[2]["params"]["contract"]]
    assert contract == ["outputs/monthly_totals.png", "outputs/monthly_totals.csv"]
    assert "| 2026-01 | 12.50 |\n| 2026-02 | 7.25 |" in answer
    assert f"`{path}`" in answer
    assert f"`fi:{desk.turn}.outputs/monthly_totals.png`" in answer


def test_the_program_reads_the_pulled_table_and_writes_to_its_own_turn():
    desk, path = with_sales()
    first = desk.turn
    desk.say(TOTALS)
    desk.run()
    code = desk.codes[-1]
    compile(code, "user_code.py", "exec")
    assert f'root / "{first}/outputs/sales.csv"' in code
    assert f'root / "{desk.turn}" / "outputs"' in code
    assert path not in code


def test_the_table_in_the_answer_is_what_the_program_printed():
    desk, _ = with_sales()
    desk.say(TOTALS)
    desk.report = report_of("no table today")
    answer = desk.run()
    assert "no table today" in answer
    assert "|" not in answer


def test_a_table_of_this_turn_needs_no_pull():
    desk = Desk("Write a CSV of sales to sales.csv, then compute the monthly totals and draw a chart.")
    desk.report = report_of(PRINTED)
    assert "12.50" in desk.run()
    assert tools(desk) == ["react.write", EXEC_TOOL]


def test_without_a_name_the_newest_table_is_taken_but_not_its_own_totals():
    desk, path = with_sales()
    for _ in range(2):
        desk.say("Compute the monthly totals and draw a chart.")
        desk.run()
    assert [call["params"]["paths"] for call in desk.calls if call["tool_id"] == "react.pull"] == [[path]] * 2


def test_a_table_is_taken_by_its_logical_path():
    desk, path = with_sales()
    desk.say(f"Compute the monthly totals of {path}")
    desk.run()
    assert desk.calls[1]["params"] == {"paths": [path]}


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Compute the monthly totals and draw a chart.", "no CSV file"),
        (TOTALS, "I see no file `sales.csv`"),
        ("Compute the monthly totals of fi:nonsense.csv", "I see no file `fi:nonsense.csv`"),
    ],
)
def test_what_is_not_there_is_not_summed_up(said: str, answer: str):
    desk = Desk(said)
    assert answer in desk.run()
    assert desk.calls == []


def test_a_given_program_runs_as_it_stands():
    code = 'import sys\n\n\ndef f():\n    return "{}"\n\nprint(f(), 1 < 2, "`")'
    desk = Desk(RUN.format(code))
    desk.report = report_of("{} True `\n```\n  indented")
    answer = desk.run()
    assert desk.codes == [code]
    assert desk.calls[0]["params"]["contract"][0]["filename"] == "outputs/result.txt"
    assert "```text\n{} True `\n'''\n  indented\n```" in answer


def test_a_program_that_is_in_sight_is_quoted_from_there():
    desk = Desk(RUN.format("print('plum')\nprint(2)"))
    desk.run()
    path = f"fi:{desk.turn}.code.tc_100000000000"
    assert path in desk.text
    desk.say(f"Read {path}")
    assert "print('plum') print(2)" in desk.run()


@pytest.mark.parametrize(
    ("said", "files"),
    [
        (
            "Run this, it writes outputs/a.txt and files/b/c.json:\n```\npass\n```",
            ["outputs/a.txt", "files/b/c.json"],
        ),
        (RUN.format('open("outputs/log.txt", "w")'), ["outputs/log.txt"]),
        (RUN.format('open(root + "/turn_x/outputs/log.txt")'), ["outputs/result.txt"]),
    ],
)
def test_the_contract_names_what_the_message_or_the_program_names(said: str, files: list[str]):
    assert [row["filename"] for row in Desk(said).ask()["tool_call"]["params"]["contract"]] == files


def test_a_given_program_gets_the_time_it_is_given():
    said = "Run this program with a timeout of two seconds:\n```python\nwhile True: pass\n```"
    assert Desk(said).ask()["tool_call"]["params"]["timeout_s"] == 2
    assert "timeout_s" not in Desk(RUN.format("pass")).ask()["tool_call"]["params"]


def test_a_given_program_gets_the_files_of_earlier_turns_that_it_names():
    desk, path = with_sales()
    desk.say(RUN.format(f'open(root + "/{desk.turn}/outputs/sales.csv"); open("turn_none/outputs/x.csv")'))
    desk.run()
    assert tools(desk)[1:] == ["react.pull", EXEC_TOOL]
    assert desk.calls[1]["params"] == {"paths": [path]}


@pytest.mark.parametrize(
    "said",
    [
        "What does this do?\n```python\nprint(1)\n```",
        "Run the marathon.",
        RUN.format("print('</channel:code>')"),
        RUN.format("print('<thinking>')"),
    ],
)
def test_what_is_no_program_to_run_is_not_run(said: str):
    assert parse_goal(said).code == ""
    assert Desk(said).ask()["action"] == "complete"


def test_words_in_a_program_ask_for_nothing():
    assert parse_goal(RUN.format("# write a file a.md, compute the monthly totals")).steps == ("pull", "exec")


def test_a_program_that_fails_is_not_run_again_and_the_answer_says_why():
    desk = Desk(RUN.format("1 / 0"))
    log = "Traceback (most recent call last):\nZeroDivisionError: division by zero"
    desk.report = report_of(log, error="nonzero_exit", message="it ended with 1")
    answer = desk.run(status="error")
    assert tools(desk) == [EXEC_TOOL]
    assert "did not succeed: nonzero_exit: " in answer
    assert "Traceback (most recent call last):\nZeroDivisionError: division by zero\n```" in answer


def test_a_failure_without_a_report_is_told_by_its_code():
    desk = Desk(RUN.format("pass"))
    desk.report = "nothing"
    assert "did not succeed: boom." in desk.run(status="error")


def test_a_run_of_which_nobody_knows_is_not_repeated():
    desk = Desk(RUN.format("pass"))
    answer = desk.run(status="unverified")
    assert tools(desk) == [EXEC_TOOL]
    assert "I cannot tell whether" in answer


def test_files_that_cannot_be_pulled_keep_the_program_from_running():
    desk, _ = with_sales()
    desk.say(TOTALS)
    answer = desk.run(status="error")
    assert tools(desk) == ["react.write", "react.pull", "react.pull"]
    assert "could not be pulled" in answer


@pytest.mark.parametrize("said", [TOTALS, RUN.format("print(1)")])
def test_where_no_programs_run_it_says_so(said: str):
    desk, _ = with_sales()
    desk.tools = ("react.read", "react.write", "react.plan")
    desk.say(said)
    assert desk.run().count("Running programs is not available here.") == 1
    assert tools(desk) == ["react.write"]


@pytest.mark.parametrize(
    ("roster", "runs"), [("react.read, react.pull", False), (f"react.pull, {EXEC_TOOL}", True)]
)
def test_it_knows_its_tools_from_the_system_prompt(roster: str, runs: bool):
    system = f"ReactDecisionOutV2\n[TOOLS] 2 available: {roster}\nNo other tool exists."
    message = {"role": "user", "content": RUN.format("print(1)")}
    prompt = parse_prompt({"model": "m", "max_tokens": 9, "system": system, "messages": [message]})
    assert any(body.strip() for body in read_channels(answer_prompt(prompt)).bodies("code")) is runs


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("before\n| a | b |\n|---|---|\n| 1 | 2 |\nafter\n| c |\n", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("     1\t| a |\n     2\t|---|\n     3\t| 1 |", "| a |\n|---|\n| 1 |"),
        ("| lonely |", ""),
        ("", ""),
    ],
)
def test_the_first_table_of_a_text_is_found(text: str, table: str):
    assert find_table(text) == table


def lines() -> Iterator[str]:
    yield from ("| a |", "|", "||", "", "text", "1\t| x |")


@given(st.lists(st.sampled_from(list(lines()))))
def test_a_table_is_only_made_of_rows(found: list[str]):
    assert all(
        row.startswith("|") and row.endswith("|") for row in find_table("\n".join(found)).split("\n") if row
    )
