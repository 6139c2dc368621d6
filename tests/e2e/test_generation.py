"""Generations on the deployed stage that break the rules, cite sources, or are no JSON: one action a round."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.e2e.order import check_order, events, terminals
from tests.e2e.seen_lanes import lanes_of, place
from tests.e2e.stage import a_word, answer_of
from tests.e2e.test_recovery import check_log
from tests.support.generation import tagged
from tests.support.script import together

pytestmark = pytest.mark.emulator

TOO_MANY = "multi_action_bundle_too_many_actions"


def decisions_of(stage, conversation, turn_of):
    """Return the decisions of the turn that these lines are about."""
    turn = events(turn_of, "chat.start")[0]["turn_id"]
    found = []
    for batch in stage.log(conversation):
        if batch["state"]["turn"] == turn:
            found += [entry for entry in batch["entries"] if entry["kind"] == "decision"]
    return found


def requests_with(stage, word):
    """Return what the scripted model was asked with a word in it, oldest first."""
    with urllib.request.urlopen(f"{stage.deployed.model_url}/control/requests", timeout=60) as answer:
        return [request for request in json.load(answer) if word in json.dumps(request["body"])]


def test_a_second_action_beyond_the_limit_is_refused_and_the_first_runs(scripted, conversation):
    word = a_word()
    first = scripted.send("write a file older.md with grey herons", conversation)
    lines = scripted.send(together(word, insists=True), conversation)
    check_order(lines, after=check_order(first))
    decision = decisions_of(scripted, conversation, lines)[0]
    assert [action["tool_id"] for action in decision["actions"]] == ["react.write"]
    assert [notice["code"] for notice in decision["notices"]] == [TOO_MANY]
    assert decision["stop_reason"] == "aborted"
    (refused,) = events(lines, "react.tool.rejected")
    assert (refused["data"]["code"], refused["data"]["action_index"]) == (TOO_MANY, 2)
    assert refused["data"]["tool_id"] == "react.read"
    lanes = lanes_of(lines)
    assert {name.partition(".")[2] for name in lanes} == {"0"}
    assert all(lane.ended for lane in lanes.values())
    assert word in lanes["canvas.0"].text
    assert "grey herons" in answer_of(lines)
    check_log(scripted, conversation)


@pytest.mark.parametrize(
    ("prefix", "code"),
    [
        (tagged("code", ""), "decision_first_channel_not_thinking"),
        ("Sure! ", "decision_preamble_before_first_channel"),
    ],
)
def test_a_forbidden_beginning_costs_one_notice_and_one_retry(scripted, conversation, prefix, code):
    word = a_word()
    scripted.fault(kind="bad_prefix", match=word, count=1, text=prefix)
    lines = scripted.send(f"Tell me about the word {word}.", conversation)
    check_order(lines)
    assert len(terminals(lines)) == 1
    assert word in answer_of(lines)
    refused, accepted = decisions_of(scripted, conversation, lines)
    assert (refused["accepted"], [notice["code"] for notice in refused["notices"]]) == (False, [code])
    assert (accepted.get("accepted", True), accepted["action"]) == (True, "complete")
    assert [line["data"]["code"] for line in events(lines, "react.tool.rejected")] == [code]
    # The call was ended at once, and what it cost is on record.
    cut, whole = (request["sent_chars"] for request in requests_with(scripted, word))
    assert cut < whole / 2
    assert refused["stop_reason"] == "aborted"
    assert refused["usage"]["output_tokens"] > 0
    shown = [lane.text for lane in lanes_of(lines).values()]
    assert not any(prefix in text for text in shown)


def test_an_answer_cites_a_search_result_and_the_terminal_shows_the_link(scripted, conversation):
    lines = scripted.send("Search for prompt caching and tell me what you find.", conversation)
    check_order(lines)
    (found,) = [e for e in scripted.entries(conversation, "result") if e["tool_id"] == "web_tools.web_search"]
    (citations,) = events(lines, "chat.citations")
    rows = {row["sid"]: row["url"] for row in found["sources"]}
    (changed,) = events(lines, "chat.sources")
    assert {item["sid"]: item["url"] for item in changed["data"]["items"]} == rows
    assert citations["data"]["items"]
    assert {item["sid"]: item["url"] for item in citations["data"]["items"]}.items() <= rows.items()
    ended = terminals(lines)[0]["data"]
    assert ended["used_sources"] == [item["sid"] for item in citations["data"]["items"]]
    assert ended["unresolved_sids"] == []
    for item in citations["data"]["items"]:
        assert f'[{item["title"]}]({item["url"]} "S:{item["sid"]}")' in ended["final_answer"]
    assert "[[S:" not in ended["final_answer"]
    (closed,) = scripted.entries(conversation, "closed")
    assert "[[S:1" in closed["answer"]
    claim = events(lines, "solver.react.decision")[-1]["data"]["claim"]
    assert lanes_of(lines, claim)["answer.0"].text == ended["final_answer"]


def test_the_command_line_shows_the_link_of_a_source(scripted, conversation):
    done = scripted.command(
        "send",
        "Search for prompt caching and tell me what you find.",
        "--conversation",
        conversation,
        "--new",
        "--user",
        scripted.user,
    )
    (found,) = [e for e in scripted.entries(conversation, "result") if e["tool_id"] == "web_tools.web_search"]
    assert found["sources"][0]["url"] in done.stdout
    assert "[[S:" not in done.stdout


def test_a_written_file_shows_links_of_its_sources_and_stores_their_numbers(scripted, conversation):
    lines = scripted.send(
        "Search for prompt caching and write what you find to a file cache.md", conversation
    )
    url = scripted.entries(conversation, "result")[0]["sources"][0]["url"]
    claim = events(lines, "solver.react.decision")[1]["data"]["claim"]
    canvas = lanes_of(lines, claim)["canvas.0"]
    assert canvas.facts["artifact_name"] == "outputs/cache.md"
    assert url in canvas.text
    assert "[[S:" not in canvas.text
    written = next(e for e in scripted.entries(conversation, "result") if e["tool_id"] == "react.write")
    body = next(block["body"] for block in written["blocks"] if block.get("body"))
    assert b"[[S:1]]" in scripted.object_bytes(body["key"])


def test_an_answer_that_is_no_json_is_replaced_by_the_whole_one(scripted, conversation):
    word = a_word()
    scripted.fault(kind="unescaped_quote", match=word, count=1)
    lines = scripted.send(f"Tell me about the word {word}.", conversation)
    check_order(lines)
    lanes = lanes_of(lines)
    broken, whole = lanes["answer.0"], lanes["answer.0.r1"]
    assert whole.facts["replaces"] == "answer.0"
    assert (broken.ended, whole.ended) == (True, True)
    assert whole.text.startswith(broken.text)
    assert len(broken.text) < len(whole.text)
    assert whole.text == answer_of(lines)
    assert '"scripted"' in whole.text
    assert word in whole.text
    (decision,) = decisions_of(scripted, conversation, lines)
    assert [notice["code"] for notice in decision["notices"]] == ["decision_repaired"]
    assert len(terminals(lines)) == 1


def test_a_written_file_streams_before_its_decision_is_stored(scripted, conversation):
    word = a_word()
    lines = scripted.send(f"write a file lake.md with the word {word} in it", conversation)
    decided = place(lines, lambda line: line.get("type") == "solver.react.decision")
    canvas = place(lines, lambda line: line["frame"] == "delta" and line["lane"] == "canvas.0")
    opened = place(lines, lambda line: line["frame"] == "lane" and line["lane"] == "canvas.0")
    assert opened < canvas < decided
    lane = lanes_of(lines)["canvas.0"]
    assert (lane.facts["marker"], lane.facts["artifact_name"]) == ("canvas", "outputs/lake.md")
    assert f"Word: {word}" in lane.text
