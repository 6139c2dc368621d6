from __future__ import annotations

import pytest

from stepline.tools.execute_code import EXECUTE, exec_tool
from stepline.tools.registry import Registry
from stepline.tools.spec import render_tool_card
from tests.unit.tools.conftest import ToolConversation

FILE = {"filename": "outputs/a.csv", "description": "the table"}


def test_only_the_model_itself_may_run_a_program_and_only_once() -> None:
    assert (EXECUTE.effect, EXECUTE.runs_code, EXECUTE.in_react, EXECUTE.in_exec) == (
        "once",
        True,
        True,
        False,
    )


@pytest.mark.parametrize(
    "params",
    [
        {"contract": [FILE]},
        {"contract": [FILE | {"visibility": "Internal"}], "prog_name": "Totals", "timeout_s": 30},
        {"contract": '[{"filename": "a", "description": "b"}]'},
        {"contract": [None, {"filepath": "a", "description": "b"}]},
    ],
)
def test_a_call_names_the_files_and_nothing_of_the_program(params) -> None:
    assert EXECUTE.validate(params) == []
    assert EXECUTE.misplaced(params) == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"contract": 7},
        {"contract": [FILE | {"filename": 7}]},
        {"contract": [FILE], "code": "print(1)"},
        {"contract": [FILE], "timeout_s": 0},
        {"contract": [FILE], "timeout_s": "30"},
    ],
)
def test_another_call_is_refused(params) -> None:
    assert EXECUTE.validate(params)


def test_the_catalogue_shows_what_a_file_of_the_contract_is() -> None:
    card = render_tool_card(EXECUTE)
    assert "  contract (array | string, required): " in card
    assert '    visibility (string, default "external"): ' in card
    assert all(EXECUTE.validate(example) == [] for example in EXECUTE.examples)


def test_a_call_is_refused_if_no_program_can_run() -> None:
    conversation = ToolConversation(registry=Registry((exec_tool(),)))
    output = conversation.call(EXECUTE.tool_id, {"contract": [FILE]})
    assert (output.status, output.error["code"]) == ("error", "execution_unavailable")
