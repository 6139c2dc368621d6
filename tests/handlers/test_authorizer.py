from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambdas import authorizer
from stepline.errors import DependencyError
from stepline.local.stage.issuer import signing as local_issuer
from tests.handlers.ingress_events import (
    SITE,
    behind,
    handshake,
    open_socket,
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
def test_a_valid_token_opens_the_door_and_its_claims_go_on_as_texts(
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
def test_the_role_of_a_token_is_behind_the_connection_by_each_way(
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
    found = behind(trusting)
    assert found is not None
    assert found.role == "project_admin"


@pytest.mark.parametrize("role", [None, "", "root", "TENANT_ADMIN", "user"])
def test_a_context_with_no_known_role_is_a_users(trusting: LambdaRuntime, role: str | None) -> None:
    context = {"tenant": "acme", "project": "support", "user": "ada", "expires_at": "4000000000"}
    open_socket(trusting, context if role is None else {**context, "role": role})
    found = behind(trusting)
    assert found is not None
    assert found.role == "user"


def test_what_the_authorizer_found_is_behind_the_connection(trusting: LambdaRuntime, issuer: Issuer) -> None:
    context = verdict(trusting, handshake(issuer.token()))
    assert context is not None
    open_socket(trusting, context)
    found = behind(trusting)
    assert found is not None
    assert (found.tenant, found.project, found.user) == ("acme", "support", "ada")


def test_a_policy_names_the_user_and_the_connection_alone(trusting: LambdaRuntime, issuer: Issuer) -> None:
    answer = trusting.call(authorizer.handler, handshake(issuer.token()))
    (statement,) = answer["policyDocument"]["Statement"]
    assert answer["principalId"] == "ada"
    assert statement["Resource"].endswith("/live/$connect")


def test_a_ticket_opens_a_websocket_for_whom_it_was_given(trusting: LambdaRuntime, issuer: Issuer) -> None:
    token = issuer.token(exp=4_000_000_000)
    ticket = ticket_of(trusting, token)
    assert verdict(trusting, handshake(ticket=ticket, Origin=SITE)) == verdict(trusting, handshake(token))


def test_a_ticket_is_nothing_to_the_http_api(trusting: LambdaRuntime, issuer: Issuer) -> None:
    ticket = ticket_of(trusting, issuer.token())
    event = {**request(), "queryStringParameters": {"ticket": ticket}, "rawQueryString": f"ticket={ticket}"}
    assert verdict(trusting, event) is None
    assert verdict(trusting, request(ticket)) is None
    assert verdict(trusting, handshake(ticket=ticket)) is not None


def test_a_token_is_no_ticket_and_does_not_help_a_bad_one(trusting: LambdaRuntime, issuer: Issuer) -> None:
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
def test_everybody_else_stays_outside_and_the_log_says_why_without_the_token(
    trusting: LambdaRuntime, issuer: Issuer, gate: str, headers: dict[str, str | None], code: str
) -> None:
    token = issuer.token()
    assert verdict(trusting, GATES[gate](token, **headers)) is None
    assert trusting.lines[-1]["code"] == code
    assert token not in trusting.text


@pytest.mark.parametrize("name", ["Origin", "Authorization"])
def test_what_is_shown_twice_and_differently_is_not_believed(
    trusting: LambdaRuntime, issuer: Issuer, name: str
) -> None:
    event = handshake(issuer.token(), Origin=SITE)
    event["multiValueHeaders"][name].append("Bearer x")
    assert verdict(trusting, event) is None
    twice = handshake(issuer.token(), Origin=SITE)
    twice["headers"][name.upper()] = "https://other.example"
    assert verdict(trusting, twice) is None


def test_two_tickets_are_none(trusting: LambdaRuntime, issuer: Issuer) -> None:
    one, two = (ticket_of(trusting, issuer.token()) for _ in range(2))
    event = handshake(ticket=one)
    event["multiValueQueryStringParameters"] = {"ticket": [one, two]}
    assert verdict(trusting, event) is None


@pytest.mark.parametrize("absent", [{}, None])
def test_a_handshake_without_headers_or_parameters_is_refused_and_no_failure(
    trusting: LambdaRuntime, absent: Any
) -> None:
    event = handshake()
    event |= {name: absent for name in event if name.startswith(("headers", "multiValue", "queryString"))}
    assert verdict(trusting, event) is None
    assert verdict(trusting, {**request(), "headers": absent}) is None
    assert "EdgeErrors" not in trusting.metrics()


def test_an_allowed_site_and_any_spelling_of_the_headers_will_do(
    trusting: LambdaRuntime, issuer: Issuer
) -> None:
    headers = {"Authorization": None, "authorization": f"bearer {issuer.token()}", "origin": SITE}
    assert verdict(trusting, handshake(**headers)) is not None


@pytest.mark.parametrize("door", [handshake, request])
def test_while_the_issuer_is_down_nobody_is_let_in_and_nobody_is_refused(
    runtime: LambdaRuntime, issuer: Issuer, door: Callable[[str], dict[str, Any]]
) -> None:
    runtime.wire(STEPLINE_OIDC_ISSUER="http://127.0.0.1:9")
    with pytest.raises(DependencyError):
        verdict(runtime, door(issuer.token(iss="http://127.0.0.1:9")))
    assert runtime.lines[-1]["code"] == "issuer_unreachable"


def test_without_an_issuer_nobody_is_let_in(runtime: LambdaRuntime, issuer: Issuer) -> None:
    assert verdict(runtime, handshake(issuer.token(iss=""))) is None
    assert verdict(runtime, request("x")) is None


def test_the_tokens_of_the_local_stage_open_its_door(trusting: LambdaRuntime, issuer: Issuer) -> None:
    token = local_issuer.sign_token("bob", issuer_url=issuer.url, home=issuer.home)
    context = verdict(trusting, handshake(token))
    assert context is not None
    assert (context["tenant"], context["project"], context["user"]) == ("local", "default", "bob")
