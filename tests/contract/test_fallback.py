"""The model that answers for one that is busy: of another provider, over another wire, and named by the receipt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from stepline.local.scripted.server import ScriptedServer
from stepline.local.tour import PLAN_AND_FILE
from stepline.model.entry import Decided
from tests.support.served_conversation import ServedConversation

Servers = tuple[ScriptedServer, ScriptedServer]


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Yield the server of the role's model, and that of its fallback."""
    with ScriptedServer(token_delay_ms=0) as first, ScriptedServer(token_delay_ms=0) as second:
        yield first, second


def converse(
    servers: Servers, *, after_s: float | None = 0, wire: str = "chat", first_url: str = ""
) -> ServedConversation:
    """Return a conversation whose role has the second server as its fallback, which answers over `wire`."""
    first, second = servers
    rows = {
        "own": {"base_url": first_url or f"{first.url}/v1", "private": True},
        "other": {"base_url": second.url, "private": True, "wire": wire, "headers": {"x-api-key": "k"}},
    }
    role = {"model": "own:scripted", "fallback": "other:scripted-2", "fallback_after_s": after_s}
    return ServedConversation(
        {
            "STEPLINE_MODEL_PROVIDERS": json.dumps(rows),
            "STEPLINE_MODEL_ROLES": json.dumps({"*": role}),
        }
    )


def answering(served: ServedConversation) -> list[str]:
    return [one.model for one in served.entries(Decided)]


BUSY: Final[dict[str, dict[str, Any]]] = {
    "overload": {"kind": "overloaded"},
    "a rate limit with a wait": {"kind": "rate_limited", "retry_after_s": 30},
    "a server's error": {"kind": "server_error"},
}


@pytest.mark.parametrize("fault", BUSY.values(), ids=BUSY)
def test_the_fallback_of_another_provider_answers_while_the_model_is_busy(
    servers: Servers, fault: dict[str, Any]
) -> None:
    first, second = servers
    first.faults.add({**fault, "count": 99})
    served = converse(servers)
    closed = served.ask(PLAN_AND_FILE)
    assert (closed.outcome, closed.code) == ("completed", "")
    assert set(answering(served)) == {"other:scripted-2"}
    assert {line.model for line in closed.bill} == {"other:scripted-2"}
    assert len(first.requests) == closed.rounds == len(second.requests)


def test_each_round_begins_with_the_model_of_the_role(servers: Servers) -> None:
    servers[0].faults.add({"kind": "overloaded"})
    served = converse(servers)
    assert served.ask(PLAN_AND_FILE).outcome == "completed"
    first, *rest = answering(served)
    assert first == "other:scripted-2"
    assert set(rest) == {"own:scripted"}


def test_a_model_out_of_reach_is_replaced_too(servers: Servers) -> None:
    served = converse(servers, first_url="http://127.0.0.1:9/v1")
    assert served.ask("Hello.").outcome == "completed"
    assert answering(served) == ["other:scripted-2"]


def test_a_role_without_a_time_waits_for_its_own_model(servers: Servers) -> None:
    first, second = servers
    first.faults.add({"kind": "rate_limited", "retry_after_s": 30})
    served = converse(servers, after_s=None)
    assert served.ask("Hello.").outcome == "completed"
    assert answering(served) == ["own:scripted"]
    assert not second.requests


def test_a_model_that_is_busy_again_is_called_again_before_its_time_has_passed(servers: Servers) -> None:
    first, second = servers
    first.faults.add({"kind": "overloaded"})
    served = converse(servers, after_s=60)
    assert served.ask("Hello.").outcome == "completed"
    assert answering(served) == ["own:scripted"]
    assert not second.requests


@pytest.mark.parametrize("kind", ["invalid_request", "cut", "malformed_stream", "context_limit"])
def test_other_errors_do_not_reach_the_fallback(servers: Servers, kind: str) -> None:
    first, second = servers
    first.faults.add({"kind": kind, "count": 99, "after_chars": 60})
    assert converse(servers).ask("Hello.").outcome == "error"
    assert not second.requests


def test_a_fallback_that_is_busy_too_leaves_the_round_to_the_durable_wait(servers: Servers) -> None:
    first, second = servers
    first.faults.add({"kind": "overloaded"})
    second.faults.add({"kind": "rate_limited", "retry_after_s": 30})
    served = converse(servers)
    assert served.ask("Hello.").outcome == "completed"
    assert answering(served) == ["own:scripted"]


def test_a_fallback_that_answers_and_declines_ends_the_turn(servers: Servers) -> None:
    first, second = servers
    first.faults.add({"kind": "overloaded"})
    second.faults.add({"kind": "refusal"})
    assert converse(servers).ask("Hello.").code == "model_declined"


def test_the_fallback_of_another_wire_has_the_same_request(servers: Servers) -> None:
    servers[0].faults.add({"kind": "overloaded"})
    served = converse(servers, wire="messages")
    assert served.ask("Hello.").outcome == "completed"
    assert answering(served) == ["other:scripted-2"]
