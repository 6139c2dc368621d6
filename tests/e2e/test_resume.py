"""A client that dies in mid-turn, and one that comes late: each gets exactly the rest."""

from __future__ import annotations

import pytest

from tests.e2e.order import check_order, check_text, events, terminals
from tests.e2e.stage import a_word, is_text, read_until

pytestmark = pytest.mark.emulator

LONG = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."


def slow(stage, word):
    stage.fault(kind="slow_tokens", match=word, count=3, token_delay_ms=60)


@pytest.mark.parametrize("wanted", [is_text, lambda line: line.get("type") == "react.tool.call"])
def test_killing_the_client_in_mid_turn_and_resuming_yields_exactly_the_rest(scripted, conversation, wanted):
    word = a_word()
    slow(scripted, word)
    with scripted.sending(LONG.format(word=word), conversation) as client:
        seen = read_until(client, wanted)
        client.kill()
    cursor = check_order(seen)
    have = check_text(seen)
    claim = max((claim for claim, _ in have), default=0)
    options = [f"--have={claim}/{lane}={chars}" for (of, lane), chars in have.items() if of == claim]
    rest = scripted.watch(conversation, "--after", str(cursor), *options)
    check_order([line for line in rest if line["frame"] == "event"], after=cursor)
    check_text(rest, {lane: chars for lane, chars in have.items() if lane[0] == claim})
    assert not terminals(seen)
    assert len(terminals(rest)) == 1
    replayed = events_only(scripted.watch(conversation, "--after", "0"))
    assert events_only(seen) + events_only(rest) == replayed


def test_a_second_client_in_mid_stream_sees_the_whole_text(scripted, conversation):
    word = a_word()
    slow(scripted, word)
    with scripted.sending(f"Tell me about the word {word}.", conversation) as client:
        read_until(client, is_text)
        late = scripted.watch(conversation, "--after", "0")
        rest = read_until(client, lambda line: line.get("terminal", False))
    check_order(late)
    ends = check_text(late)
    assert any(lane.startswith("answer.") for _, lane in ends)
    assert terminals(late) == terminals(rest)


def test_watching_a_conversation_at_rest_prints_it_and_ends(stage, conversation):
    lines = stage.send("Hello there.", conversation)
    again = stage.watch(conversation, "--after", "0")
    assert events_only(again) == events_only(lines)
    nothing = stage.watch(conversation, "--after", str(check_order(lines)))
    assert not events_only(nothing)
    assert len(events(again, "chat.start")) == 1


def events_only(lines):
    return [line for line in lines if line["frame"] == "event"]
