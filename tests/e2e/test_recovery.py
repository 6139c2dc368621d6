"""Failures in mid-turn: one answer, one set of blocks, nothing locked."""

from __future__ import annotations

import pytest

from tests.e2e.order import check_order, events, terminals
from tests.e2e.stage import a_word, answer_of, is_text, read_until

pytestmark = pytest.mark.emulator

LONG = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."


def check_log(stage, conversation):
    """Assert that each round has one accepted decision, each call one result, each turn one end."""
    decisions = [
        (batch["state"]["turn"], entry["iteration"])
        for batch in stage.log(conversation)
        for entry in batch["entries"]
        if entry["kind"] == "decision" and entry.get("accepted", True)
    ]
    assert len(decisions) == len(set(decisions))
    calls = [result["call_id"] for result in stage.entries(conversation, "result")]
    assert len(calls) == len(set(calls))
    opened = [entry["turn"] for entry in stage.entries(conversation, "opened")]
    assert [entry["turn"] for entry in stage.entries(conversation, "closed")] == opened


def test_a_decide_worker_killed_in_mid_stream_costs_no_more_than_time(scripted, conversation):
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=80)
    with scripted.sending(LONG.format(word=word), conversation) as client:
        seen = read_until(client, is_text)
        assert scripted.kill_workers("decide") >= 1
        seen += read_until(client, lambda line: line.get("terminal", False))
    check_order(seen)
    assert len(events(seen, "round.restarted")) >= 1
    assert len(terminals(seen)) == 1
    assert word in answer_of(seen)
    check_log(scripted, conversation)
    written = [r for r in scripted.entries(conversation, "result") if r["tool_id"] == "react.write"]
    assert len(written) == 1
    epoch = events(seen, "chat.start")[0]["n"]
    failures = [e for e in scripted.history(conversation, epoch) if "Failed" in e["type"]]
    assert "Runtime.ExitError" in str(failures)


@pytest.mark.parametrize("kind", ["overloaded", "rate_limited", "cut", "malformed_protocol"])
def test_a_model_that_fails_once_still_answers_once(scripted, conversation, kind):
    word = a_word()
    scripted.fault(kind=kind, match=word, count=1, after_chars=40, retry_after_s=0.1)
    lines = scripted.send(f"Tell me about the word {word}.", conversation)
    check_order(lines)
    assert len(terminals(lines)) == 1
    assert terminals(lines)[0]["type"] == "chat.complete"
    check_log(scripted, conversation)


def test_a_stop_in_mid_turn_leaves_no_locked_conversation(scripted, conversation):
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=1500)
    with scripted.sending(LONG.format(word=word), conversation) as client:
        seen = read_until(client, is_text)
        scripted.command("down")
    scripted.command("up")
    rest = scripted.watch(conversation, "--after", str(check_order(seen)))
    assert len(terminals(rest)) == 1
    assert word in answer_of(rest)
    assert len(scripted.entries(conversation, "takeover")) == 1
    check_log(scripted, conversation)
    again = scripted.send("Hello there.", conversation)
    assert terminals(again)[0]["type"] == "chat.complete"
    assert f"CONV#local#default#{conversation}" not in scripted.open_lanes()
