"""`stepline cost`: tokens, dollars and AWS's units of a conversation, by turn."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stepline.local import caller
from stepline.local.command.cli import main
from stepline.local.command.tenancy import cost as command
from stepline.local.command.tenancy.cost import CLASSES, render_receipts

CALLS = {
    "role": "solver.main",
    "model": "claude-sonnet-5\x1b[2J",
    "input_tokens": 1200,
    "cache_read_tokens": 30_000,
    "cache_write_5m_tokens": 0,
    "cache_write_1h_tokens": 0,
    "output_tokens": 450,
    "calls": 3,
    "estimated": False,
    "usd": 0.0129,
    "priced": True,
}
UNITS = [{"what": "write unit", "quantity": 84.0, "usd": 0.0000525}]
TURN = {
    "turn_id": "turn_1",
    "usd": 0.0129,
    "priced": True,
    "aws_usd": 0.0000525,
    "lines": [CALLS],
    "aws": UNITS,
    "attempts_unreported": 1,
}
RECEIPTS = {"turns": [TURN], "usd": 0.0129, "priced": True, "aws_usd": 0.0000525, "prices_of": "2026-11-24"}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(caller, "find_caller", lambda *_, **__: None)
    monkeypatch.setattr(command, "read_receipts", lambda *_: RECEIPTS)
    return lambda *words: CliRunner().invoke(main, ["cost", *words])


def test_a_turn_lists_its_calls_its_units_and_missing_reports(run):
    done = run("c1")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "turn_1  models $0.0129, AWS $0.000053",
        "  solver.main claude-sonnet-5␛[2J: 3 calls, 1,200 in, 30,000 cached, 450 out: $0.0129",
        "  AWS write unit: 84: $0.000053",
        "  1 attempt did not report the usage of AWS",
        "total  models $0.0129, AWS $0.000053",
    ]


def test_the_turns_that_a_fork_has_from_its_origin_are_named_and_not_counted():
    *_, before, total = render_receipts({**RECEIPTS, "turns_before": 3})
    assert before == "3 turns of the original not counted"
    assert total.startswith("total  models $0.0129")


def test_a_replayed_round_has_a_line_of_its_own_before_the_sum():
    used = {name: CALLS[name] for name in (*CLASSES, "estimated")}
    replays = [
        {"at": "2026-11-24T09:00:00Z", "model": "claude-sonnet-5", "tokens": used, "usd": 0.0129},
        {"at": "2026-11-24T09:05:00Z", "model": "own", "tokens": {**used, "estimated": True}, "usd": None},
    ]
    *_, known, unknown, total = render_receipts({**RECEIPTS, "replays": replays})
    assert known == "replayed round, claude-sonnet-5: 1,200 in, 30,000 cached, 450 out: $0.0129"
    assert unknown == "replayed round, own: about 1,200 in, 30,000 cached, 450 out: no known price"
    assert total.startswith("total  ")


def test_with_json_each_turn_is_a_line_and_the_last_is_the_sum(run):
    turn, total = (json.loads(line) for line in run("c1", "--json").stdout.splitlines())
    assert turn == TURN
    assert total == {name: value for name, value in RECEIPTS.items() if name != "turns"}


def test_a_model_that_costs_nothing_is_named_and_has_no_dollars():
    free = {**TURN, "lines": [{**CALLS, "model": "scripted", "usd": 0.0}], "usd": 0.0}
    head, line, *_ = render_receipts({**RECEIPTS, "turns": [free]})
    assert head == "turn_1  models free, AWS $0.000053"
    assert line == "  solver.main scripted: 3 calls, 1,200 in, 30,000 cached, 450 out: free"


def test_a_call_without_a_known_price_is_marked():
    unknown = {**TURN, "lines": [{**CALLS, "priced": False, "usd": 0.0, "estimated": True}], "priced": False}
    head, line, *_ = render_receipts({**RECEIPTS, "turns": [unknown]})
    assert "and calls without a known price" in head
    assert line.endswith("3 calls, about 1,200 in, 30,000 cached, 450 out: no known price")


def test_a_turn_in_which_all_reported_misses_nothing():
    whole = {**TURN, "attempts_unreported": 0}
    assert not any("did not report" in text for text in render_receipts({**RECEIPTS, "turns": [whole]}))
