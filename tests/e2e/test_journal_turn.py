"""The layout `journal` on the deployed stage: a turn stages a picture, a table and a skill, and answers in its wrap-up round."""

from __future__ import annotations

from itertools import groupby

import pytest

from stepline.local.client.http_api import HttpApi
from stepline.local.stage.lifecycle import mint
from tests.e2e.mode import context_layout
from tests.e2e.order import check_order, events
from tests.e2e.stage import a_word, answer_of
from tests.e2e.test_recovery import check_log
from tests.support.files import PNG, noise
from tests.support.script import look_closely

pytestmark = pytest.mark.emulator

SKILL = "public.research"
FULL = "[FULL CONTEXT ARTIFACTS (show_artifacts)]"
ACTIVE = "[ACTIVE SKILLS]"
WRAPUP = "This is the wrap-up round"
TABLE = "Write a CSV of sales over two months to sales.csv."


@pytest.fixture
def api(scripted):
    deployed = scripted.deployed
    found = HttpApi(
        deployed.api_url, lambda: mint(deployed, scripted.user, tenant="local", project="default")
    )
    yield found
    found.close()


@pytest.fixture
def chart(tmp_path):
    """Return the path of a picture."""
    path = tmp_path / "chart.png"
    path.write_bytes(noise(PNG, (40, 30)))
    return path


def texts_of(parts):
    return [part.get("text", "") for part in parts]


def marks_of(parts):
    """Return for each part of a request if a cache mark follows it."""
    return ["cache_control" in part for part in parts]


def digest_of(request):
    """Return the parts of a request's only message."""
    (message,) = request["body"]["messages"]
    return message["content"]


def pictures_of(request):
    return sum(part["type"] == "image" for part in digest_of(request))


def found_in(request):
    """Return if a request shows artifacts in full, skills, and the wrap-up block; and its number of pictures."""
    block = texts_of(request["body"]["system"])[1]
    return (
        FULL in lines_of(texts_of(digest_of(request))[0]),
        ACTIVE in lines_of(block),
        WRAPUP in block,
        pictures_of(request),
    )


def lines_of(text):
    """Return the lines that begin in the first column."""
    return [line for line in text.splitlines() if not line.startswith("  ")]


def test_a_turn_sees_its_requested_result_for_one_round_and_answers_last(scripted, conversation, api, chart):
    word = a_word()
    with context_layout(scripted, "journal", max_iterations=3):
        before = scripted.send(TABLE, conversation, "--attach", str(chart))
        lines = scripted.send(
            look_closely("chart.png", "sales.csv", skills=(SKILL,), said=word), conversation
        )
    check_order(lines, after=check_order(before))
    assert "seen.md" in answer_of(lines)

    first, second, last = scripted.model_requests(word)
    for request in (first, second, last):
        assert marks_of(request["body"]["system"]) == [True, True, False]
        assert marks_of(digest_of(request))[0]
        assert True not in marks_of(digest_of(request))[1:]
    asked_for = [found_in(request) for request in (first, second, last)]
    assert asked_for == [(False, False, False, 0), (True, True, False, 1), (False, False, True, 0)]

    asked = scripted.entries(conversation, "decision")[-3]
    assert [path.rpartition("/")[2] for path in asked["show_artifacts"]] == ["chart.png", "sales.csv"]
    assert asked["show_skills"] == [SKILL]
    shown = texts_of(digest_of(second))[0].partition(f"\n{FULL}\n")[2]
    assert [line for line in lines_of(shown) if line.startswith("### ")] == [
        f"### {path} [artifact]" for path in asked["show_artifacts"]
    ]
    assert "  date,region,units,amount" in shown
    written = scripted.entries(conversation, "result")[-1]
    assert written["status"] == "ok"
    (body,) = [block["body"] for block in written["blocks"] if block.get("body")]
    seen = scripted.object_bytes(body["key"]).decode()
    assert "chart.png: attached" in seen
    assert f"sk:{SKILL}: ## Skill: " in seen

    for turn in api.list_conversation_rounds(conversation).turns:
        for one in turn.rounds:
            assert api.get_request(conversation, one.decided_n).equal
    check_log(scripted, conversation)


def test_a_conversation_changes_its_layout_between_two_turns_and_reads_the_other_ones_turn(
    scripted, conversation, api
):
    word = a_word()
    scripted.send(f"Write a file note.md with the word {word} in it.", conversation)
    with context_layout(scripted, "journal"):
        lines = scripted.send(f"What did I ask about {word} before?", conversation)
    scripted.send(f"And now, {word}?", conversation)
    assert events(lines, "chat.complete")
    (middle,) = [
        one
        for one in scripted.model_requests(word)
        if "[OPERATIONAL DIGEST]" in texts_of(digest_of(one))[0].splitlines()[:1]
    ][:1]
    text = texts_of(digest_of(middle))[0]
    prior = text.partition("\n=== CURRENT TURN")[0]
    assert f"  Write a file note.md with the word {word} in it." in prior.splitlines()
    assert "- note.md: fi:" in prior
    layouts = [
        entry["sent"].get("layout", "timeline") for entry in scripted.entries(conversation, "decision")
    ]
    assert [layout for layout, _ in groupby(layouts)] == ["timeline", "journal", "timeline"]
    for turn in api.list_conversation_rounds(conversation).turns:
        for one in turn.rounds:
            assert api.get_request(conversation, one.decided_n).equal
    check_log(scripted, conversation)
