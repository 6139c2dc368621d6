import json
from dataclasses import replace
from typing import Any

import pytest

from lambdas import api
from stepline.adapters.memory.ticket import MemoryTickets
from stepline.errors import DependencyError
from stepline.ports.channel import Principal
from tests.handlers.ingress_events import ask_for_ticket

from .conftest import LambdaRuntime, recorded

URL = "wss://abcdef123.execute-api.us-east-1.amazonaws.com/live"
ADA = {"tenant": "acme", "project": "support", "user": "ada", "expires_at": "4000000000"}


def read(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the body of an answer, which no cache may keep."""
    assert answer["headers"]["Cache-Control"] == "no-store"
    assert answer["headers"]["X-Content-Type-Options"] == "nosniff"
    body: dict[str, Any] = json.loads(answer["body"])
    return body


def test_an_authorized_user_gets_a_ticket_its_lifetime_and_the_websocket_url(
    runtime: LambdaRuntime,
) -> None:
    runtime.wire(STEPLINE_SOCKET_URL=URL)
    answer = ask_for_ticket(runtime, ADA)
    body = read(answer)
    assert (answer["statusCode"], sorted(body)) == (201, ["expires_in_s", "ticket", "url"])
    assert (body["expires_in_s"], body["url"]) == (60, URL)
    principal = Principal(tenant="acme", project="support", user="ada", expires_at=4_000_000_000)
    assert runtime.app.ports.tickets.redeem(body["ticket"]) == principal


def test_a_ticket_ends_early_with_its_token(runtime: LambdaRuntime) -> None:
    now = int(runtime.app.ports.clock.now().timestamp())
    assert read(ask_for_ticket(runtime, {**ADA, "expires_at": str(now + 7)}))["expires_in_s"] == 7


def test_a_token_that_expires_in_transit_gets_no_ticket(runtime: LambdaRuntime) -> None:
    now = int(runtime.app.ports.clock.now().timestamp())
    answer = ask_for_ticket(runtime, {**ADA, "expires_at": str(now)})
    assert (answer["statusCode"], read(answer)["code"]) == (401, "auth_expired")


def ask(method: str, path: str) -> dict[str, Any]:
    event = recorded("ticket")
    event["requestContext"]["http"] |= {"method": method, "path": path}
    return {**event, "rawPath": path}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/v1/socket-tickets/", 404, "not_found"),
        ("POST", "/v2/socket-tickets", 404, "not_found"),
        ("GET", "/v1/socket-tickets", 405, "method_not_allowed"),
    ],
)
def test_an_unknown_address_is_refused_with_problem_details(
    runtime: LambdaRuntime, method: str, path: str, status: int, code: str
) -> None:
    answer = runtime.call(api.handler, ask(method, path))
    body = read(answer)
    assert (answer["statusCode"], body["status"], body["code"]) == (status, status, code)
    assert answer["headers"]["Content-Type"] == "application/problem+json"
    assert answer["headers"].get("Allow") == ("POST" if status == 405 else None)


class Broken(MemoryTickets):
    """Raises an unexpected error."""

    def issue(self, principal: Principal) -> str:
        raise ZeroDivisionError(principal)


def test_an_internal_failure_is_counted_and_its_message_is_not_sent(runtime: LambdaRuntime) -> None:
    ports = replace(runtime.app.ports, tickets=Broken(runtime.app.ports.clock))
    runtime.use(replace(runtime.app, ports=ports))
    answer = ask_for_ticket(runtime, ADA)
    assert (answer["statusCode"], read(answer)["code"]) == (500, "internal")
    assert "ada" not in answer["body"]
    assert runtime.metrics() == {"EdgeErrors": 1}


def test_a_request_without_an_authorizer_gets_no_ticket(runtime: LambdaRuntime) -> None:
    event = recorded("ticket")
    del event["requestContext"]["authorizer"]
    with pytest.raises(KeyError):
        runtime.call(api.handler, event)
    assert runtime.metrics() == {"EdgeErrors": 1}


class Throttled(MemoryTickets):
    """Issues no tickets, temporarily."""

    def issue(self, principal: Principal) -> str:
        raise DependencyError("AWS answered ThrottlingException")


def test_the_client_is_asked_to_retry_while_tickets_cannot_be_stored(runtime: LambdaRuntime) -> None:
    ports = replace(runtime.app.ports, tickets=Throttled(runtime.app.ports.clock))
    runtime.use(replace(runtime.app, ports=ports))
    answer = ask_for_ticket(runtime, ADA)
    assert (answer["statusCode"], read(answer)["code"]) == (503, "dependency")
    assert json.loads(answer["body"])["retryable"]
    assert "AWS" not in answer["body"]


def test_no_log_line_contains_a_ticket(runtime: LambdaRuntime) -> None:
    ticket = read(ask_for_ticket(runtime, ADA))["ticket"]
    assert runtime.lines[-1]["message"] == "answered"
    assert ticket not in runtime.text
    assert '"ada"' not in runtime.text
