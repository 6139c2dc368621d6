import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas import authorizer, socket
from stepline.local import issuer

from .conftest import Stage, recorded


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("issuer")


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    server = issuer.make_server(0, home)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def handshake(token: str, **headers: str | None) -> dict[str, Any]:
    event = recorded("authorizer")
    event["headers"]["Authorization"] = f"Bearer {token}"
    event["headers"].update(headers)
    event["headers"] = {name: value for name, value in event["headers"].items() if value is not None}
    return event


def effect(answer: dict[str, Any]) -> str:
    (statement,) = answer["policyDocument"]["Statement"]
    assert statement["Resource"] == recorded("authorizer")["methodArn"]
    return str(statement["Effect"])


def test_a_valid_token_opens_the_door_and_its_claims_reach_the_socket(
    stage: Stage, home: Path, url: str
) -> None:
    stage.wire(STEPLINE_OIDC_ISSUER=url)
    token = issuer.mint("ada", issuer_url=url, tenant="acme", project="support", home=home)
    answer = stage.call(authorizer.handler, handshake(token))
    assert (effect(answer), answer["principalId"]) == ("Allow", "ada")
    assert all(isinstance(value, str) for value in answer["context"].values())
    event = recorded("connect")
    event["requestContext"]["authorizer"] = answer["context"]
    stage.call(socket.handler, event)
    found = stage.app.ports.subscriptions.principal("k1")
    assert found is not None
    assert (found.tenant, found.project, found.user) == ("acme", "support", "ada")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Authorization": None}, "unauthorized"),
        ({"Authorization": ""}, "unauthorized"),
        ({"Authorization": "Bearer"}, "unauthorized"),
        ({"Authorization": "Basic YWRhOmFkYQ=="}, "unauthorized"),
        ({"Authorization": "Bearer not.a.token"}, "unauthorized"),
        ({"Origin": "https://evil.example"}, "origin_not_allowed"),
        ({"oRiGiN": "https://evil.example"}, "origin_not_allowed"),
    ],
)
def test_everybody_else_stays_outside_and_the_log_says_why_without_the_token(
    stage: Stage, home: Path, url: str, headers: dict[str, str | None], code: str
) -> None:
    stage.wire(STEPLINE_OIDC_ISSUER=url, STEPLINE_ALLOWED_ORIGINS="https://app.example")
    token = issuer.mint("ada", issuer_url=url, home=home)
    answer = stage.call(authorizer.handler, handshake(token, **headers))
    assert effect(answer) == "Deny"
    assert "context" not in answer
    assert stage.lines[-1]["code"] == code
    assert token not in stage.text


def test_an_expired_token_is_refused_as_expired(stage: Stage, home: Path, url: str) -> None:
    stage.wire(STEPLINE_OIDC_ISSUER=url)
    token = issuer.mint("ada", issuer_url=url, ttl_s=-60, home=home)
    assert effect(stage.call(authorizer.handler, handshake(token))) == "Deny"
    assert stage.lines[-1]["code"] == "auth_expired"


def test_an_allowed_site_and_any_spelling_of_the_headers_will_do(stage: Stage, home: Path, url: str) -> None:
    stage.wire(STEPLINE_OIDC_ISSUER=url, STEPLINE_ALLOWED_ORIGINS="https://app.example")
    token = issuer.mint("ada", issuer_url=url, home=home)
    headers = {"Authorization": None, "authorization": f"bearer {token}", "origin": "https://app.example"}
    assert effect(stage.call(authorizer.handler, handshake(token, **headers))) == "Allow"


def test_while_the_issuer_is_down_nobody_is_let_in(stage: Stage, home: Path) -> None:
    stage.wire(STEPLINE_OIDC_ISSUER="http://127.0.0.1:9")
    token = issuer.mint("ada", issuer_url="http://127.0.0.1:9", home=home)
    assert effect(stage.call(authorizer.handler, handshake(token))) == "Deny"
    assert stage.lines[-1]["code"] == "issuer_unreachable"


def test_without_an_issuer_nobody_is_let_in(stage: Stage) -> None:
    assert effect(stage.call(authorizer.handler, handshake("x"))) == "Deny"
