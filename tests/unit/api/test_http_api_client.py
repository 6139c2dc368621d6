"""The client of the HTTP API calls every endpoint of the table, and returns the router's answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest

from stepline.api.endpoint import Endpoint, Nothing
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.openapi import PATH_PARAMETER, takes_key
from stepline.api.router import ApiResponse, Router
from stepline.errors import DependencyError, InputError
from stepline.ingress.upload import UploadRequest
from stepline.local.client.api_transport import ApiError
from stepline.local.client.http_api import HttpApi
from tests.security.every_endpoint import FILE, World, make_world, name, row_of, values
from tests.security.strangers import Stranger
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import LANE


class Recorded(Router):
    """The router of the whole table, with its answers."""

    def __init__(self) -> None:
        super().__init__(ENDPOINTS)
        self.answers: list[ApiResponse] = []

    def answer(self, *given: Any) -> ApiResponse:
        self.answers.append(super().answer(*given))
        return self.answers[-1]


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found = Recorded()
    monkeypatch.setattr("tests.support.api_server.ROUTER", found)
    return found


@cache
def kept() -> World:
    return make_world()


@contextmanager
def client_of(world: World) -> Iterator[HttpApi]:
    server = ApiServer(world.caller(Stranger(role="tenant_admin")))
    with served(server) as url, closing(HttpApi(url, lambda: TOKEN)) as client:
        yield client
    assert server.failures == []


@pytest.fixture
def api(router: Recorded) -> Iterator[HttpApi]:
    with client_of(kept()) as client:
        yield client


def ask(api: HttpApi, endpoint: Endpoint, world: World) -> Any:
    """Call the method of an endpoint with existing names, and a valid query and body."""
    row, names = row_of(endpoint), world.names
    known = values(endpoint, replace(names, conversation="a-new-one") if row.taken else names)
    named: dict[str, Any] = {one: known[one] for one in PATH_PARAMETER.findall(endpoint.path)}
    if endpoint.body:
        named["body"] = msgspec.convert(row.body(world.names), endpoint.body)
    if endpoint.query is not Nothing:
        query = msgspec.convert(row.query(world.names), endpoint.query, strict=False)
        named |= msgspec.structs.asdict(query)
    if takes_key(endpoint):
        named["idempotency_key"] = "k"
    return getattr(api, endpoint.run.__name__)(**named)


CALLED = [endpoint for endpoint in ENDPOINTS if not endpoint.streams]
"""A stream is read by a client of its own protocol."""


@pytest.mark.parametrize("endpoint", CALLED, ids=name)
def test_a_method_returns_what_its_endpoint_answered(router: Recorded, endpoint: Endpoint) -> None:
    world = make_world() if row_of(endpoint).spoils else kept()
    world.prepare(endpoint)
    with client_of(world) as api:
        got = ask(api, endpoint, world)
    sent = router.answers[-1]
    assert sent.status < 400
    if endpoint.redirects:
        assert got == sent.headers["Location"]
    elif endpoint.answer is None:
        assert (got, sent.body) == (None, b"")
    else:
        assert json.loads(msgspec.json.encode(got)) == json.loads(sent.body)


def test_every_endpoint_has_a_method_of_its_name() -> None:
    called = [endpoint.run.__name__ for endpoint in CALLED]
    assert len(set(called)) == len(called)
    assert {one for one in vars(HttpApi) if not one.startswith("_")} == set(called)


def test_a_refusal_is_an_error_with_status_code_and_detail(api: HttpApi) -> None:
    with pytest.raises(ApiError) as error:
        api.read_conversation("nobody-has-said-anything-here")
    refused = error.value
    assert (refused.status, refused.reason, str(refused)) == (404, "not_found", refused.problem.detail)
    assert (refused.retry_after_s, refused.problem.title) == (0, "Not Found")


def test_the_gateways_own_refusal_of_a_token_is_unauthorized(api: HttpApi) -> None:
    with closing(HttpApi(api._url, lambda: "another")) as client, pytest.raises(ApiError) as error:
        client.list_all()
    assert (error.value.status, error.value.reason) == (403, "unauthorized")


@pytest.mark.parametrize("suffix", ["/timeline", "?q=x", "/..", "/"])
def test_an_invalid_path_segment_reaches_no_other_endpoint(
    api: HttpApi, router: Recorded, suffix: str
) -> None:
    with pytest.raises(InputError) as error:
        api.read_conversation(f"{LANE.conversation}{suffix}")
    assert error.value.reason == "bad_path"
    assert router.answers == []


def test_the_same_key_again_finds_the_same_upload(api: HttpApi) -> None:
    body = msgspec.convert(FILE, UploadRequest)
    first, again = (
        api.begin_upload(LANE.conversation, body, idempotency_key=key).upload for key in ("one", "one")
    )
    assert first == again


def test_an_absent_api_is_unreachable() -> None:
    client = HttpApi("http://127.0.0.1:9", lambda: TOKEN)
    with pytest.raises(DependencyError) as error:
        client.list_all()
    assert error.value.reason == "api_unreachable"
