"""Summaries and titles of the scripted model, and the sizes that its server remembers."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.local.scripted.messages_request import Prompt, parse_prompt
from stepline.local.scripted.policy import (
    GATE_MARK,
    PREFIX_MARK,
    REFS_MAX,
    SUMMARY_MARK,
    TITLE_WORDS,
    answer_prompt,
)
from stepline.local.scripted.server import ScriptedServer
from stepline.local.scripted.speech import NOT_AN_AI
from stepline.model.entry import Titled
from stepline.protocol.parser.channel_parser import read_channels
from stepline.protocol.parser.grammar import THINKING, ChannelSpec
from tests.unit.local.scripted.scripted_conversation import ScriptedConversation
from tests.unit.local.scripted.test_server import BODY, call, post

TALK = """\
[user]: Write a file lake.md with grey herons.
[tool result]: wrote fi:turn_20261121T101010_abcdef.outputs/lake.md
[user]: Now read fi:turn_20261121T101010_abcdef.outputs/lake.md.
"""


def asking(system: str, text: str) -> Prompt:
    return parse_prompt(
        {
            "model": "claude-sonnet-5",
            "max_tokens": 700,
            "system": system,
            "messages": [{"role": "user", "content": text}],
        }
    )


@pytest.mark.parametrize("mark", [SUMMARY_MARK, PREFIX_MARK])
def test_a_summary_holds_what_was_asked_last_and_the_paths_and_says_who_made_it(mark: str) -> None:
    summary = answer_prompt(asking(f"{mark}\nBe brief.", TALK))
    assert "active_request: Now read fi:" in summary
    assert summary.count("read_refs: fi:turn_20261121T101010_abcdef.outputs/lake.md\n") == 1
    assert NOT_AN_AI in summary
    assert answer_prompt(asking(f"{mark}\nBe brief.", TALK)) == summary


def test_a_summary_of_much_is_short() -> None:
    many = "\n".join(f"[user]: say {n} {'word ' * 200} tc:turn_1.tc_{n}.result" for n in range(500))
    summary = answer_prompt(asking(SUMMARY_MARK, many))
    assert len(summary) < 3_000
    assert summary.count("read_refs") == REFS_MAX
    assert "tc:turn_1.tc_499.result" in summary


def test_a_summary_of_nothing_says_so() -> None:
    assert "none that I can see" in answer_prompt(asking(SUMMARY_MARK, "…"))


def test_a_summary_is_no_matter_of_what_the_conversation_says() -> None:
    answer = answer_prompt(asking("Answer briefly.", f"{SUMMARY_MARK}\n{TALK}"))
    assert answer.startswith(NOT_AN_AI)


def test_a_title_is_made_of_the_first_words() -> None:
    prompt = asking(
        f"{GATE_MARK}\nAt most six words.", "Write a file about the <b>grey herons</b> of the lake"
    )
    found = read_channels(answer_prompt(prompt), (THINKING, ChannelSpec("output")))
    (title,) = found.bodies("output")
    assert title == "Write a file about the b"
    assert len(title.split()) == TITLE_WORDS
    assert found.first_channel == "thinking"


def test_an_agent_in_stages_has_its_conversation_named() -> None:
    chat = ScriptedConversation("Tell me about the word plum.", AI_REACT_AGENT_VERSION="v2")
    assert [entry.title for entry in chat.entries(Titled)] == ["Tell me about the word plum"]


def test_the_server_remembers_what_each_request_was_for_and_how_large_it_was() -> None:
    with ScriptedServer(token_delay_ms=0, window_tokens=2000) as server:
        post(server)
        post(server, system="Another task.\nAt once.", messages=[{"role": "user", "content": "x" * 9_000}])
        _, sizes, _ = call(server, "GET", "/control/sizes")
        small, large = sizes
        assert (small["task"], small["status"]) == ("Be brief.", 200)
        assert (large["task"], large["status"]) == ("Another task.", 400)
        assert small["tokens"] == tokens(BODY)
        assert large["tokens"] > 2000
        call(server, "DELETE", "/control/sizes")
        assert call(server, "GET", "/control/sizes")[1] == []


def tokens(body: dict[str, Any]) -> int:
    return parse_prompt(body).tokens
