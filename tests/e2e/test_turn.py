"""A turn on the deployed stage, as a client sees it and as the log, the bucket and the execution hold it."""

from __future__ import annotations

import itertools
import json

import pytest

from stepline.local.safe_text import clean
from tests.e2e.mode import over_bedrock
from tests.e2e.order import check_order, events, terminals
from tests.e2e.stage import a_word, answer_of, is_text

pytestmark = pytest.mark.emulator

WRITE_AND_READ = (
    "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
)


@pytest.mark.smoke
def test_a_typed_message_streams_an_answer(stage, conversation):
    lines = stage.send("Hello there.", conversation)
    check_order(lines)
    assert [line["kind"] for line in lines if line["frame"] == "ack"] == ["prompt"]
    assert any(is_text(line) and line["lane"].startswith("answer.") for line in lines)
    assert len(terminals(lines)) == 1
    assert answer_of(lines)


def test_a_planted_word_goes_through_the_write_the_bucket_and_the_read(stage, conversation):
    word = a_word()
    lines = stage.send(WRITE_AND_READ.format(word=word), conversation)
    check_order(lines)
    assert len(terminals(lines)) == 1
    decisions = stage.entries(conversation, "decision")
    written = [a for d in decisions for a in d.get("actions", ()) if a["tool_id"] == "react.write"]
    assert len(written) == 1
    assert word in json.dumps(written[0]["params"])
    results = {result["tool_id"]: result for result in stage.entries(conversation, "result")}
    bodies = [block["body"] for block in results["react.write"]["blocks"] if block.get("body")]
    assert any(word.encode() in stage.object_bytes(body["key"]) for body in bodies)
    read = [block.get("text", "") for block in results["react.read"]["blocks"]]
    assert any(word in text for text in read)
    assert word in answer_of(lines)
    plan = events(lines, "react.plan")
    assert len(plan[0]["data"]["steps"]) == 3


def test_a_turn_without_a_terminal_prints_its_answer(stage, conversation):
    word = a_word()
    done = stage.command(
        "send",
        WRITE_AND_READ.format(word=word),
        "--conversation",
        conversation,
        "--new",
        "--user",
        stage.user,
    )
    assert word in done.stdout
    assert clean(done.stdout) == done.stdout


def test_a_second_turn_knows_the_first(stage, conversation):
    word = a_word()
    first = stage.send(f"Remember the word {word}.", conversation)
    second = stage.send("What did I say before?", conversation)
    cursor = check_order(first)
    check_order(second, after=cursor)
    assert word in answer_of(second)


def test_a_turn_runs_over_bedrock_as_it_does_over_the_provider(stage, conversation):
    word = a_word()
    with over_bedrock(stage):
        lines = stage.send(WRITE_AND_READ.format(word=word), conversation)
    check_order(lines)
    assert any(is_text(line) and line["lane"].startswith("answer.") for line in lines)
    assert word in answer_of(lines)
    assert all("anthropic_version" in asked["body"] for asked in stage.model_requests(word))


def test_a_tool_round_takes_at_most_three_transitions(stage, conversation):
    lines = stage.send(WRITE_AND_READ.format(word=a_word()), conversation)
    epoch = events(lines, "chat.start")[0]["n"]
    entered = [
        event["stateEnteredEventDetails"]["name"]
        for event in stage.history(conversation, epoch)
        if event["type"].endswith("StateEntered")
    ]
    decides = [at for at, name in enumerate(entered) if name == "Decide"]
    assert len(decides) >= 3
    assert max(later - sooner for sooner, later in itertools.pairwise(decides)) <= 3


def test_the_log_is_readable_by_people(stage, conversation):
    stage.send("Hello there.", conversation)
    shown = stage.command("log", conversation).stdout
    assert "prompt: Hello there." in shown
    assert "completed" in shown
