"""A conversation that outgrows its context, on the deployed stage: nothing overflows, and nothing is lost."""

from __future__ import annotations

import json
import urllib.request

import pytest

from stepline.local.client.change import EventsApplied
from stepline.local.scripted.policy import GATE_MARK, SUMMARY_MARK
from stepline.local.stage.deployed import HOME
from tests.e2e.mode import agent_version, context_of, unhindered
from tests.e2e.order import events
from tests.e2e.seen_lanes import place
from tests.e2e.stage import a_word
from tests.e2e.strict_client import Person
from tests.e2e.test_recovery import check_log
from tests.support.budget import budget

pytestmark = pytest.mark.emulator

TURNS, BUDGET, SMALL = budget((70, 24_000, 12_000), (200, 48_000, 22_500))
COMPACTION = "chat.compaction"
COMPLETE = "chat.complete"
SLOW_MS = 30_000  # its worker is killed meanwhile, however busy the machine is
SENTENCE = "The herons of the northern lake stood in the reeds until the evening came. "
GAIN = 0.9


@pytest.fixture
def narrow(scripted):
    """The stage with a small context, for a user in a hurry, and a record of the requests that begins now."""
    with context_of(scripted, BUDGET), unhindered(scripted):
        control(scripted, "sizes", "DELETE")
        yield scripted


def control(stage, what, method="GET"):
    """Ask the scripted model's control endpoint."""
    url = f"{stage.deployed.model_url}/control/{what}"
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:
        return json.load(answer)


@pytest.fixture
def person(stage):
    return Person(stage.deployed, HOME)


def at_once(stage, word):
    """Let the model answer every message with a word without pauses."""
    stage.fault(kind="slow_tokens", match=word, count=10 * TURNS, token_delay_ms=0)


def request_of(number, word):
    """Return what the user says in a turn: a long file every sixth time, a search every tenth, else something short."""
    if number == 3:
        return f"Write a file fact.md with the word {word} in it."
    if number % 6 == 0:
        return f'Write a file note-{number}.md with "{word} {number}. {SENTENCE * 60}" and read it back.'
    if number % 10 == 5:
        return f"Search for prompt caching and tell me what you find. {word}"
    return f"Turn {number}: I only say {word}. {SENTENCE * 5}"


def compactions_of(events):
    return [event for event in events if event.type == COMPACTION]


def check_compactions(events):
    """Assert that each compaction begins and then ends, one after another; return those that shortened something."""
    found = compactions_of(events)
    begun, ended = found[::2], found[1::2]
    assert [event.data["compaction_id"] for event in begun] == [
        event.data["compaction_id"] for event in ended
    ]
    assert {event.status for event in begun} == {"started"}
    assert "started" not in {event.status for event in ended}
    done = [event for event in ended if event.status == "completed"]
    assert all(event.data["after_tokens"] < event.data["before_tokens"] * GAIN for event in done)
    return done


def test_a_long_conversation_stays_within_a_small_context_and_its_third_turn_is_read_word_for_word(
    narrow, conversation, person
):
    word, compacting = a_word(), []
    at_once(narrow, word)
    with person.enter(conversation) as talk:
        for number in range(1, TURNS):
            talk.say(request_of(number, word))
            talk.answer()
            compacting += talk.events
            if number == 3:
                path = f"fi:{talk.events[-1].turn_id}.outputs/fact.md"
        talk.say(f"Read {path}, {word}.")
        answer = talk.answer()
    assert word in answer
    assert check_compactions(compacting)
    sizes = control(narrow, "sizes")
    assert {size["status"] for size in sizes} == {200}
    assert max(size["tokens"] for size in sizes) <= BUDGET
    results = narrow.entries(conversation, "result")
    written = next(r for r in results if r["tool_id"] == "react.write")
    body = next(block["body"] for block in written["blocks"] if block.get("body"))
    stored = narrow.object_bytes(body["key"]).decode()
    assert results[-1]["tool_id"] == "react.read"
    shown = next(block for block in results[-1]["blocks"] if block.get("meta", {}).get("source_path") == path)
    assert shown["text"] == stored
    check_log(narrow, conversation)


def say_until_compaction(talk, text):
    """Say the same again and again until older turns are being summarised, which is in the middle of a turn."""
    for _ in range(TURNS):
        talk.say(text)
        while not any(event.type == COMPLETE for event in talk.events):
            talk.hear(EventsApplied)
            if compactions_of(talk.events):
                return
    raise AssertionError("nothing was ever summarised")


def test_a_worker_killed_while_a_summary_is_written_costs_no_more_than_time(scripted, conversation, person):
    word = a_word()
    at_once(scripted, word)
    with context_of(scripted, SMALL), unhindered(scripted), person.enter(conversation) as talk:
        scripted.fault(kind="slow_tokens", match=SUMMARY_MARK, token_delay_ms=0, first_delay_ms=SLOW_MS)
        say_until_compaction(talk, f'Write a file note.md with "{word} {SENTENCE * 10}".')
        assert scripted.kill_workers("decide") >= 1
        assert "note.md" in talk.answer()
    assert len([event for event in talk.events if event.type == "round.restarted"]) == 1
    assert check_compactions(talk.events)
    check_log(scripted, conversation)


def test_the_second_version_names_a_new_conversation_before_its_first_round(scripted, conversation):
    word = a_word()
    at_once(scripted, word)
    control(scripted, "sizes", "DELETE")
    with agent_version(scripted, "v2"):
        lines = scripted.send(f"Tell me about the word {word}.", conversation)
    gates = [size for size in control(scripted, "sizes") if size["task"] == GATE_MARK]
    assert len(gates) == 1
    (titled,) = scripted.entries(conversation, "titled")
    assert titled["title"] == f"Tell me about the word {word}"
    # Until then it is called by the beginning of its first message.
    assert events(lines, "chat.conversation.title")[-1]["data"]["title"] == titled["title"]
    decided = place(lines, lambda line: line.get("type") == "solver.react.decision")
    assert place(lines, lambda line: line.get("data", {}).get("title") == titled["title"]) < decided
    check_log(scripted, conversation)
