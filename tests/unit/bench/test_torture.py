"""The torture matrix over a subject in this process: it holds under every fault, and each flaw gets its verdict."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from bench.torture.cell import MEANINGS, Cell
from bench.torture.fault import FAULTS
from bench.torture.model_server import ModelServer, read_request
from bench.torture.reply import plan_reply
from bench.torture.results import Column, read_results, write_column
from bench.torture.run_matrix import run_cell
from bench.torture.scenario import SCENARIOS
from bench.torture.stepline_dialect import speak_stepline
from bench.torture.subject_table import SUBJECTS
from bench.torture.torture_page import render_page
from bench.torture.trial import Patience
from tests.unit.bench.memory_subject import MemorySubject

PATIENCE = Patience(
    wait_s=60,
    quiet_s=0.2,
    gone_s=0.1,
    throttled_s=0.2,
    missed=300,
    piece_ms=2,
    pieces=30,
    poll_s=0.01,
    rest_s=0,
)
SHORT = replace(PATIENCE, wait_s=3)
ROOT = Path(__file__).parents[3]
BY_NAME = {fault.name: fault for fault in FAULTS}


def cell(fault, flaw="", patience=PATIENCE):
    if fault == "stop_resumed":
        patience = replace(patience, pieces=5_000)  # which no machine reads before the stop
    with ModelServer() as model:
        return run_cell(lambda place: MemorySubject(place, flaw), BY_NAME[fault], patience, model)


@pytest.mark.parametrize("fault", BY_NAME)
def test_a_subject_without_a_flaw_holds(fault):
    found = cell(fault)
    assert found.verdict == "holds", found.evidence


@pytest.mark.parametrize(
    ("flaw", "fault", "verdict"),
    [
        ("loses", "killed_streaming", "lost"),
        ("loses", "release_streaming", "lost"),
        ("sticks", "effect_record", "stuck"),
        ("repeats", "effect_record", "repeated"),
        ("replays_all", "client_gone", "repeated"),
        ("replays_all", "events_missed", "repeated"),
        ("keeps_duplicates", "duplicate", "repeated"),
        ("approves_itself", "approval_stored", "wrong"),
        ("refuses", "two_clients", "refused"),
        ("refuses", "steer_tool", "refused"),
        ("has_no_stop", "stop_resumed", "not offered"),
    ],
)
def test_a_flaw_gets_its_verdict(flaw, fault, verdict):
    found = cell(fault, flaw, SHORT if verdict == "stuck" else PATIENCE)
    assert found.verdict == verdict, found.evidence


def test_every_fault_has_a_scenario():
    assert list(SCENARIOS) == list(BY_NAME)


@pytest.mark.parametrize(
    ("text", "tool", "answer"),
    [
        ("@say w00000001 2 0", "", "heard w00000001: w00000001.1 w00000001.2"),
        ("@note w00000001", "note", ""),
        ('@note w00000001\n{"word": "w00000001"}', "", "heard w00000001: done"),
        ("@note w00000001\nw00000001\n@pay w00000002", "pay", ""),
        (
            "@say w00000001 1 0\nheard w00000001: w00000001.1\n@say w00000002 1 0",
            "",
            "heard w00000001 w00000002: w00000002.1",
        ),
        ("hello", "", "heard no command. done"),
    ],
)
def test_the_scripted_model_answers_by_the_commands(text, tool, answer):
    reply = plan_reply(text)
    assert (reply.tool, "".join(piece for piece, _ in reply.pieces)) == (tool, answer)


def test_a_request_with_a_call_and_no_text_is_read_and_answered():
    call = {"id": "c", "type": "function", "function": {"name": "note", "arguments": '{"word": "w00000001"}'}}
    body = {
        "messages": [
            {"role": "system", "content": "You follow the commands of the user."},
            {"role": "user", "content": [{"type": "text", "text": "@note w00000001"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "noted w00000001"},
        ]
    }
    text = read_request(body)
    assert speak_stepline(body, text) is None
    assert "".join(piece for piece, _ in plan_reply(text).pieces) == "heard w00000001: done"


def test_the_page_has_every_cell_and_its_evidence(tmp_path):
    verdicts = itertools.cycle(MEANINGS)
    cells = {name: Cell(verdict=next(verdicts), evidence=f"seen {name}", seconds=1.0) for name in BY_NAME}
    columns = {kind.name: Column(versions="kit 1.0", date="2026-11-29", cells=cells) for kind in SUBJECTS}
    for name, column in columns.items():
        write_column(name, column, tmp_path)
    assert read_results(tmp_path) == columns
    page = render_page(columns)
    for kind in SUBJECTS:
        assert f"## {kind.title}\n" in page
    if SUBJECTS:
        assert all(f"seen {name}" in page for name in BY_NAME)


def test_the_readme_has_the_number_of_faults_that_our_column_holds_under():
    held = [found.verdict for found in read_results()["stepline"].cells.values()].count("holds")
    assert f"**{held} of {len(FAULTS)}** faults" in (ROOT / "README.md").read_text()
