"""A program while it is written: which lanes, in which order, and whose code it is."""

from __future__ import annotations

import json

import pytest

from stepline.model.ids import call_id
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.parser.channel_parser import ChannelParser
from stepline.protocol.stream.lane import LaneEvent, LaneFacts, LanePiece
from stepline.protocol.stream.show import Show
from tests.support.generation import start_tag
from tests.unit.protocol.stream.shown_lanes import (
    TURN,
    answer,
    call,
    code,
    raw,
    rules,
    run,
    show_alike,
    show_so_far,
    thinking,
    write,
)

ID = call_id(TURN, 2, 0)
READ = call("react.read", paths=["fi:turn_1.outputs/a.md"])


def failure(shown, lane="exec.0.status.1"):
    return json.loads(shown.texts[lane])["error"]["code"]


def test_a_program_is_shown_by_its_status_objective_name_contract_and_code():
    shown = show_alike(run(notes="add up") + code("\nprint('ok')\n"))
    assert list(shown.texts) == [
        "exec.0.status",
        "notes.0",
        "exec.0.name",
        "exec.0.objective",
        "exec.0.contract",
        "code.0",
    ]
    assert json.loads(shown.texts["exec.0.status"]) == {"status": "gen"}
    assert shown.texts["exec.0.name"] == "Sums"
    assert shown.texts["exec.0.objective"] == "add up"
    assert json.loads(shown.texts["exec.0.contract"]) == {
        "execution_id": ID,
        "contract": [{"filename": "outputs/a.csv", "description": "rows"}],
    }
    assert shown.texts["code.0"] == "\nprint('ok')\n"
    assert set(shown.ends.values()) == {""}
    assert shown.facts["code.0"] == LaneFacts(
        marker="subsystem",
        format="text",
        artifact_name=f"react.exec.{ID}.code",
        sub_type="code_exec.code",
        execution_id=ID,
        language="python",
    )
    assert shown.facts["exec.0.name"].sub_type == "code_exec.program.name"
    assert shown.facts["exec.0.name"].artifact_name == f"react.exec.{ID}.program_name"


def test_the_status_is_shown_as_soon_as_the_tool_is_known():
    text = run()
    assert list(show_so_far(text[: text.index("params")]).texts) == ["exec.0.status"]


def test_code_is_shown_while_it_is_written_from_its_first_character_that_is_not_blank():
    assert "code.0" not in show_so_far(run() + (start_tag("code") + "\n  \n")).texts
    assert show_so_far(run() + (start_tag("code") + "\n  \nx")).texts["code.0"] == "\n  \nx"


def test_code_is_exact_to_the_character():
    program = 'print("</channel:thinking>", "`", "[[S:1]]", \'<channel:x>\')  # 🙂 </channel:\n'
    assert show_alike(run() + code(program)).texts["code.0"] == program


def test_code_belongs_to_the_decision_before_it():
    shown = show_alike(write("outputs/a.md", "a") + run() + thinking("So:") + code("print(1)"))
    assert shown.texts["code.1"] == "print(1)"
    assert "code.0" not in shown.texts


def test_code_after_a_decision_that_runs_none_is_not_shown():
    assert "code" not in str(list(show_alike(READ + code("print(1)")).texts))
    shown = show_alike(run() + READ + code("print(1)"))
    assert "code.0" not in shown.texts
    assert failure(shown) == "code_channel_missing"


def test_code_before_the_only_decision_is_kept_until_it_is_known_to_be_the_only_one():
    shown = show_alike(code("print(1)") + run())
    assert shown.texts["code.0"] == "print(1)"
    assert show_so_far(code("print(1)") + run()).texts.get("code.0") is None
    shown = show_alike(code("print(1)") + run() + READ)
    assert "code.0" not in shown.texts
    assert list(show_alike(code("print(1)") + answer("Yes.")).texts) == ["answer.0"]


def test_a_blank_code_channel_is_ignored():
    shown = show_alike(run() + code(" \n") + code("print(1)"))
    assert shown.texts["code.0"] == "print(1)"
    assert "exec.0.status.1" not in shown.texts


@pytest.mark.parametrize("text", [run() + code("a") + code("b"), code("a") + code("b") + run()])
def test_two_programs_for_one_call_end_in_an_error(text):
    shown = show_alike(text)
    assert shown.texts["code.0"] == "a"
    assert failure(shown) == "code_channel_without_single_exec"


def test_a_missing_program_ends_in_an_error():
    for text in (run(), run() + code("")):
        shown = show_alike(text)
        assert failure(shown) == "code_channel_missing"
        assert shown.facts["exec.0.status.1"].replaces == "exec.0.status"


def test_a_program_that_is_cut_ends_in_an_error():
    shown = show_alike(run() + (start_tag("code") + "print("))
    assert shown.ends["code.0"] == "eof"
    assert failure(shown) == "generation_eof"


def test_a_program_of_a_refused_decision_is_not_shown():
    text = run(notes="one") + code("a") + run(notes="two") + code("b")
    shown = show_alike(text)
    assert [lane for lane in shown.texts if lane.endswith(".1")] == []
    assert shown.texts["code.0"] == "a"
    assert not show_alike(run() + code("a"), last_round=True).texts


def test_a_call_whose_json_has_to_be_guessed_gets_no_program():
    body = run().replace("Sums", 'the "big", sums')
    shown = show_alike(body + code("a"))
    assert failure(shown) == "json_decode_error"
    assert "code.0" not in shown.texts
    shown = show_alike(body + code("a"), strict=False)
    assert shown.texts["exec.0.name"] == 'the "big", sums'
    assert shown.texts["code.0"] == "a"


@pytest.mark.parametrize(
    ("contract", "shown_contract"),
    [
        ('[{"filename": "a.csv", "more": 1}, 7]', [{"filename": "a.csv"}]),
        (
            [{"filepath": "a.csv", "visibility": "internal"}],
            [{"filename": "a.csv", "visibility": "internal"}],
        ),
        ("no json", None),
        ("[" * 100_000, None),
        ({"filename": "a.csv"}, None),
        (None, None),
    ],
)
def test_the_readable_part_of_a_contract_is_shown(contract, shown_contract):
    shown = show_alike(run(contract=contract) + code("a")).texts.get("exec.0.contract")
    assert (json.loads(shown)["contract"] if shown else None) == shown_contract


def test_a_program_beside_an_allowed_file_keeps_its_own_lanes():
    rule = FanoutRule(mode="read_write_search")
    shown = show_alike(write("outputs/a.md", "a") + run() + code("x"), fanout=rule)
    assert {"canvas.0", "exec.1.status", "code.1"} <= set(shown.texts)


def test_an_invalid_decision_starts_no_program():
    assert show_alike(raw("{") + code("a")).texts == {}


def test_a_program_before_its_decision_is_shown_once():
    shown: list[LaneEvent] = []
    parser, shower = ChannelParser(), Show(rules(), shown.append)
    shower.show(parser.feed(code("print(1)") + run()))
    shower.show(parser.close())
    shown.clear()
    shower.close()
    before = shown[:]
    shower.close()
    assert [event.text for event in before if isinstance(event, LanePiece)] == ["print(1)"]
    assert shown == before


@pytest.mark.parametrize(
    ("params", "code_"),
    [
        ({"contract": []}, "missing_contract"),
        ({"contract": "{"}, "invalid_contract"),
        ({"oops": 1}, "bad_params"),
    ],
)
def test_an_invalid_call_shows_no_program(params, code_):
    shown = show_alike(run(notes="add up", **params) + code("print('never')"))
    assert list(shown.texts) == ["exec.0.status", "notes.0", "exec.0.status.1"]
    assert failure(shown) == code_
