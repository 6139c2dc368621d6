from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambdas import authorizer
from stepline.errors import DependencyError
from stepline.local.stage.issuer import signing as local_issuer
from tests.handlers.ingress_events import (
    SITE,
    handshake,
    open_socket,
    principal_of,
    request,
    say,
    ticket_of,
    verdict,
)
from tests.support.issuer import Issuer, running_issuer

from .conftest import LambdaRuntime


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as found:
        yield found


@pytest.fixture
def trusting(runtime: LambdaRuntime, issuer: Issuer) -> LambdaRuntime:
    """A runtime that trusts the issuer, and one site."""
    runtime.wire(STEPLINE_OIDC_ISSUER=issuer.url, STEPLINE_ALLOWED_ORIGINS=f"https://other.example,{SITE}")
    return runtime


GATES: dict[str, Any] = {"websocket": handshake, "http": request}


@pytest.mark.parametrize("gate", GATES)
def test_a_valid_token_is_accepted_and_its_claims_are_passed_on_as_strings(
    trusting: LambdaRuntime, issuer: Issuer, gate: str
) -> None:
    context = verdict(trusting, GATES[gate](issuer.token(exp=4_000_000_000)))
    assert context == {
        "tenant": "acme",
        "project": "support",
        "user": "ada",
        "expires_at": "4000000000",
        "role": "user",
    }


@pytest.mark.parametrize("gate", ["websocket", "ticket", "renewal"])
def test_every_kind_of_handshake_gives_the_connection_its_tokens_role(
    trusting: LambdaRuntime, issuer: Issuer, gate: str
) -> None:
    token = issuer.token(**{"cognito:groups": ["project_admin"]})
    shown = {
        "websocket": lambda: handshake(token),
        "ticket": lambda: handshake(ticket=ticket_of(trusting, token)),
        "renewal": lambda: handshake(issuer.token()),
    }[gate]()
    context = verdict(trusting, shown)
    assert context is not None
    open_socket(trusting, context)
    if gate == "renewal":
        say(trusting, {"action": "auth", "ticket": ticket_of(trusting, token)})
    found = principal_of(trusting)
    assert found is not None
    assert found.role == "project_admin"


@pytest.mark.parametrize("role", [None, "", "root", "TENANT_ADMIN", "user"])
def test_a_context_without_a_known_role_has_the_role_user(trusting: LambdaRuntime, role: str | None) -> None:
    context = {"tenant": "acme", "project": "support", "user": "ada", "expires_at": "4000000000"}
    open_socket(trusting, context if role is None else {**context, "role": role})
    found = principal_of(trusting)
    assert found is not None
    assert found.role == "user"


def test_the_connection_has_the_principal_that_the_authorizer_found(
    trusting: LambdaRuntime, issuer: Issuer
) -> None:
    context = verdict(trusting, handshake(issuer.token()))
    assert context is not None
    open_socket(trusting, context)
    found = principal_of(trusting)
    assert found is not None
    assert (found.tenant, found.project, found.user) == ("acme", "support", "ada")


def test_a_message_comes_from_the_application_that_its_token_names(
    trusting: LambdaRuntime, issuer: Issuer
) -> None:
    context = verdict(trusting, handshake(ticket=ticket_of(trusting, issuer.token(azp="desk"))))
    assert context is not None
    open_socket(trusting, context)
    found = principal_of(trusting)
    assert found is not None
    assert found.client == "desk"


def test_a_policy_names_only_the_user_and_the_connection(trusting: LambdaRuntime, issuer: Issuer) -> None:
    answer = trusting.call(authorizer.handler, handshake(issuer.token()))
    (statement,) = answer["policyDocument"]["Statement"]
    assert answer["principalId"] == "ada"
    assert statement["Resource"].endswith("/live/$connect")


def test_a_ticket_opens_a_websocket_for_its_holder(trusting: LambdaRuntime, issuer: Issuer) -> None:
    token = issuer.token(exp=4_000_000_000)
    ticket = ticket_of(trusting, token)
    assert verdict(trusting, handshake(ticket=ticket, Origin=SITE)) == verdict(trusting, handshake(token))


def test_the_http_api_does_not_accept_a_ticket(trusting: LambdaRuntime, issuer: Issuer) -> None:
    ticket = ticket_of(trusting, issuer.token())
    event = {**request(), "queryStringParameters": {"ticket": ticket}, "rawQueryString": f"ticket={ticket}"}
    assert verdict(trusting, event) is None
    assert verdict(trusting, request(ticket)) is None
    assert verdict(trusting, handshake(ticket=ticket)) is not None


def test_a_token_is_not_a_ticket_and_does_not_replace_an_invalid_one(
    trusting: LambdaRuntime, issuer: Issuer
) -> None:
    token = issuer.token()
    assert verdict(trusting, handshake(ticket=token)) is None
    assert verdict(trusting, handshake(token, ticket="x" * 43)) is None


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Authorization": None}, "unauthorized"),
        ({"Authorization": ""}, "unauthorized"),
        ({"Authorization": "Bearer"}, "unauthorized"),
        ({"Authorization": "Bearer  "}, "unauthorized"),
        ({"Authorization": "Basic YWRhOmFkYQ=="}, "unauthorized"),
        ({"Authorization": "Bearer not.a.token"}, "unauthorized"),
        ({"Origin": "https://evil.example"}, "origin_not_allowed"),
        ({"oRiGiN": "https://evil.example"}, "origin_not_allowed"),
    ],
)
def test_other_clients_are_refused_and_the_log_has_the_reason_without_the_token(
    trusting: LambdaRuntime, issuer: Issuer, gate: str, headers: dict[str, str | None], code: str
) -> None:
    token = issuer.token()
    assert verdict(trusting, GATES[gate](token, **headers)) is None
    assert trusting.lines[-1]["code"] == code
    assert token not in trusting.text


def from_address(event: dict[str, Any], address: str | None) -> dict[str, Any]:
    """Return an event of a client with another address; None for an event without one."""
    source = event["requestContext"]["http" if "http" in event["requestContext"] else "identity"]
    source.pop("sourceIp")
    if address is not None:
        source["sourceIp"] = address
    return event


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("203.0.113.7", True),
        ("203.0.114.7", False),
        ("198.51.100.9", True),
        ("198.51.100.8", False),
        ("2001:db8::7", True),
        ("2001:db9::7", False),
        ("::ffff:203.0.113.7", True),
        ("::ffff:203.0.114.7", False),
        ("unknown", False),
        ("", False),
        (None, False),
    ],
)
def test_only_clients_from_the_allowed_networks_are_accepted(
    trusting: LambdaRuntime, issuer: Issuer, gate: str, address: str | None, is_allowed: bool
) -> None:
    trusting.wire(
        STEPLINE_OIDC_ISSUER=issuer.url,
        STEPLINE_ALLOWED_ADDRESSES="203.0.113.0/24,198.51.100.9,2001:db8::/32",
    )
    event = from_address(GATES[gate](issuer.token(), **{"X-Forwarded-For": "203.0.113.7"}), address)
    assert (verdict(trusting, event) is not None) is is_allowed
    if not is_allowed:
        assert trusting.lines[-1]["code"] == "address_not_allowed"
        assert not any(said in trusting.text for said in ("ada", *filter(None, [address])))


def test_a_client_from_elsewhere_does_not_use_up_a_ticket(trusting: LambdaRuntime, issuer: Issuer) -> None:
    trusting.wire(STEPLINE_OIDC_ISSUER=issuer.url, STEPLINE_ALLOWED_ADDRESSES="203.0.113.0/24")
    ticket = ticket_of(trusting, issuer.token())
    assert verdict(trusting, from_address(handshake(ticket=ticket), "192.0.2.1")) is None
    assert verdict(trusting, handshake(ticket=ticket)) is not None


@pytest.mark.parametrize("name", ["Origin", "Authorization"])
def test_a_credential_sent_twice_with_different_values_is_refused(
    trusting: LambdaRuntime, issuer: Issuer, name: str
) -> None:
    event = handshake(issuer.token(), Origin=SITE)
    event["multiValueHeaders"][name].append("Bearer x")
    assert verdict(trusting, event) is None
    twice = handshake(issuer.token(), Origin=SITE)
    twice["headers"][name.upper()] = "https://other.example"
    assert verdict(trusting, twice) is None


def test_two_tickets_are_refused(trusting: LambdaRuntime, issuer: Issuer) -> None:
    one, two = (ticket_of(trusting, issuer.token()) for _ in range(2))
    event = handshake(ticket=one)
    event["multiValueQueryStringParameters"] = {"ticket": [one, two]}
    assert verdict(trusting, event) is None


@pytest.mark.parametrize("absent", [{}, None])
def test_a_handshake_without_headers_or_parameters_is_refused_without_a_failure(
    trusting: LambdaRuntime, absent: Any
) -> None:
    event = handshake()
    event |= {name: absent for name in event if name.startswith(("headers", "multiValue", "queryString"))}
    assert verdict(trusting, event) is None
    assert verdict(trusting, {**request(), "headers": absent}) is None
    assert "EdgeErrors" not in trusting.metrics()


def test_an_allowed_site_is_accepted_with_any_spelling_of_the_headers(
    trusting: LambdaRuntime, issuer: Issuer
) -> None:
    headers = {"Authorization": None, "authorization": f"bearer {issuer.token()}", "origin": SITE}
    assert verdict(trusting, handshake(**headers)) is not None


@pytest.mark.parametrize("door", [handshake, request])
def test_no_client_is_accepted_or_refused_while_the_issuer_is_down(
    runtime: LambdaRuntime, issuer: Issuer, door: Callable[[str], dict[str, Any]]
) -> None:
    runtime.wire(STEPLINE_OIDC_ISSUER="http://127.0.0.1:9")
    with pytest.raises(DependencyError):
        verdict(runtime, door(issuer.token(iss="http://127.0.0.1:9")))
    assert runtime.lines[-1]["code"] == "issuer_unreachable"


def test_every_client_is_refused_without_an_issuer(runtime: LambdaRuntime, issuer: Issuer) -> None:
    assert verdict(runtime, handshake(issuer.token(iss=""))) is None
    assert verdict(runtime, request("x")) is None


def test_tokens_of_the_local_stage_are_accepted(trusting: LambdaRuntime, issuer: Issuer) -> None:
    token = local_issuer.sign_token("bob", issuer_url=issuer.url, home=issuer.home)
    context = verdict(trusting, handshake(token))
    assert context is not None
    assert (context["tenant"], context["project"], context["user"]) == ("local", "default", "bob")
