"""Whole turns over each wire: the loop, its client of the provider, and the scripted model's server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from stepline.local.scripted.server import ScriptedServer
from stepline.local.tour import PLAN_AND_FILE
from stepline.model.entry import Decided
from tests.support.generation import tagged
from tests.support.served_conversation import ServedConversation

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/own-model.md"
WIRES: Final = ("messages", "chat", "row", "converse")
"""Two providers by their variables, and a row for a server as the guide has it."""
ROUND: Final = "Complete the user's request"


def variables(wire: str, url: str) -> dict[str, str]:
    """Return the variables that choose a server on a wire, with a fallback."""
    role = {"model": "scripted", "fallback": "scripted-2"}
    if wire == "messages":
        chosen = {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": url}
    elif wire == "chat":
        chosen = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": url, "STEPLINE_MODEL_PROVIDER": "openai"}
    elif wire == "converse":
        row = {"wire": "converse", "base_url": url, "private": True}
        chosen = {"STEPLINE_MODEL_PROVIDERS": json.dumps({"nova": row})}
        role = {"model": "nova:amazon.nova-2-lite-v1:0", "fallback": "nova:amazon.nova-2-pro-v1:0"}
    else:
        rows = re.search(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        assert rows
        chosen = {"STEPLINE_MODEL_PROVIDERS": rows[1].replace("http://127.0.0.1:11434/v1", url)}
        role = {"model": "own:scripted", "fallback": "own:scripted-2"}
    return {**chosen, "STEPLINE_MODEL_ROLES": json.dumps({"*": role})}


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(token_delay_ms=0) as running:
        yield running


@pytest.fixture(params=WIRES)
def served(request: pytest.FixtureRequest, server: ScriptedServer) -> Iterator[ServedConversation]:
    conversation = ServedConversation(variables(request.param, server.url))
    yield conversation
    conversation.provider.close()


def test_a_turn_uses_tools_and_answers(served: ServedConversation) -> None:
    closed = served.ask(PLAN_AND_FILE)
    assert (closed.outcome, closed.code) == ("completed", "")
    assert closed.rounds > 2
    assert "kumquat" in str(served.entries(Decided))


def test_a_receipt_has_the_tokens_that_the_server_counted(
    served: ServedConversation, server: ScriptedServer
) -> None:
    served.ask(PLAN_AND_FILE)
    decided = served.entries(Decided)
    assert not any(one.usage.estimated for one in decided)
    counted = [one["usage"] for one in server.requests if one.get("usage")]
    assert sum(one.usage.output_tokens for one in decided) <= sum(one["output_tokens"] for one in counted)
    assert decided[-1].usage.cache_read_tokens > 0


FAULTS: Final = {
    "a rate limit": {"kind": "rate_limited"},
    "a rate limit with a long wait": {"kind": "rate_limited", "retry_after_s": 30},
    "overload": {"kind": "overloaded"},
    "a server's error": {"kind": "server_error"},
    "a cut before the text": {"kind": "cut"},
    "an error within the text": {"kind": "error_in_stream", "after_chars": 60},
    "an answer that breaks the protocol": {"kind": "malformed_protocol"},
    "a text before the first channel": {"kind": "bad_prefix"},
    "thinking": {"kind": "thinking"},
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_turn_survives_each_fault(
    served: ServedConversation, server: ScriptedServer, fault: dict[str, Any]
) -> None:
    server.faults.add(fault)
    closed = served.ask("Hello.")
    assert not server.faults.list()
    assert (closed.outcome, closed.code) == ("completed", "")
    assert closed.answer


@pytest.mark.parametrize("words", ["", "No."], ids=["a filter", "a refusal"])
def test_a_refusal_goes_to_the_fallback(
    served: ServedConversation, server: ScriptedServer, words: str
) -> None:
    server.faults.add({"kind": "refusal", "explanation": words, "text": tagged("thinking", "I")})
    closed = served.ask("Hello.")
    assert (closed.outcome, closed.code) == ("completed", "")
    declined, answered = served.entries(Decided)
    assert declined.declined
    assert declined.model != answered.model


REFUSED: Final = {
    "a request": ({"kind": "invalid_request", "count": 9}, "model_refused"),
    "a cut within the text, again and again": (
        {"kind": "cut", "after_chars": 60, "count": 9},
        "model_stream_broken",
    ),
    "a malformed stream": (
        {"kind": "malformed_stream", "after_chars": 60, "count": 9},
        "model_stream_broken",
    ),
    "a full window": ({"kind": "context_limit", "count": 9}, "context_limit"),
    "both models decline": ({"kind": "refusal", "count": 9}, "model_declined"),
}


@pytest.mark.parametrize(("fault", "code"), REFUSED.values(), ids=REFUSED)
def test_a_turn_that_is_refused_ends_with_its_code_and_the_next_one_answers(
    served: ServedConversation, server: ScriptedServer, fault: dict[str, Any], code: str
) -> None:
    server.faults.add(fault)
    assert served.ask("Hello.").code == code
    assert len(server.requests) < 9
    server.faults.clear()
    assert served.ask("And now?", "m2").outcome == "completed"


@pytest.mark.parametrize("served", [wire for wire in WIRES if wire != "converse"], indirect=True)
def test_the_wrong_key_ends_the_turn_with_its_code(
    served: ServedConversation, server: ScriptedServer
) -> None:
    server.key = "another"
    assert served.ask("Hello.").code == "model_refused"
    server.key = ""
    assert served.ask("And now?", "m2").outcome == "completed"


def test_a_small_window_lowers_the_budget_of_a_request_and_the_answer(server: ScriptedServer) -> None:
    rules = ServedConversation(variables("row", server.url)).ports.policy.context
    assert rules.window_tokens == 32_768
    assert rules.budget < 32_768 - 8_192


def test_prices_of_a_row_are_those_of_its_models(server: ScriptedServer) -> None:
    served = ServedConversation(variables("row", server.url))
    closed = served.ask("Hello.")
    assert {line.model for line in closed.bill} == {"own:scripted"}
    assert all(line.priced for line in closed.bill)


def test_a_role_may_name_another_provider_than_its_fallback(server: ScriptedServer) -> None:
    chosen = variables("row", server.url)
    chosen |= {"ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": server.url}
    role = {"model": "own:scripted", "fallback": "scripted"}
    served = ServedConversation({**chosen, "STEPLINE_MODEL_ROLES": json.dumps({"*": role})})
    server.faults.add({"kind": "refusal"})
    closed = served.ask("Hello.")
    assert closed.outcome == "completed"
    assert {line.model for line in closed.bill} == {"own:scripted", "scripted"}


def test_another_server_is_another_row_and_needs_no_code(server: ScriptedServer) -> None:
    with ScriptedServer(token_delay_ms=0) as another:
        served = ServedConversation(
            {
                "STEPLINE_MODEL_PROVIDERS": json.dumps(
                    {
                        "own": {"base_url": f"{server.url}/v1", "private": True},
                        "claude": {
                            "wire": "messages",
                            "base_url": another.url,
                            "private": True,
                            "headers": {"x-api-key": "of the gateway"},
                        },
                    }
                ),
                "STEPLINE_MODEL_ROLES": '{"*": {"model": "own:scripted", "fallback": "claude:scripted"}}',
            }
        )
        server.faults.add({"kind": "refusal"})
        assert served.ask("Hello.").outcome == "completed"
        assert [entry.model for entry in served.entries(Decided)] == ["own:scripted", "claude:scripted"]
        assert (len(server.requests), len(another.requests)) == (1, 1)
        served.provider.close()
