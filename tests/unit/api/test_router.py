"""The router with a test table: paths, queries, bodies, keys, and refusals."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, cast

import pytest

from stepline.api.endpoint import BODY_MAX_BYTES, Call, Endpoint, Nothing, Redirect, Services, StrictInput
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.openapi import codes_of, render_openapi
from stepline.api.router import ANSWER_MAX_BYTES, ApiResponse, Request, Router
from stepline.errors import BusyError, ContextLimit, LimitError, NotFoundError
from stepline.model.tenancy.request_rates import Rates, RequestRates
from stepline.ports.channel import Principal
from tests.support.conversation import Conversation

ADA = Principal(tenant="acme", project="support", user="ada", expires_at=4_000_000_000)
SERVICES = Services(
    ports=Conversation(rates=RequestRates(user=Rates(reads=0, changes=0))).ports, history=cast("Any", None)
)
NEEDS_BODY = {"content-type": "application/json; charset=utf-8"}


class Page(StrictInput):
    """A page of a list."""

    limit: int = 50


class Name(StrictInput):
    """A new name."""

    title: str


def read(call: Call[Page, None]) -> dict[str, Any]:
    """Read one."""
    long = "x" * ANSWER_MAX_BYTES if call.path["thing"] == "long" else ""
    return {"path": dict(call.path), "limit": call.query.limit, "key": call.idempotency_key, "long": long}


def rename(call: Call[Nothing, Name]) -> None:
    """Rename one."""
    if call.body.title == "taken":
        raise BusyError("contended")
    if call.body.title == "often":
        raise LimitError("too many", code="rate_limited", retry_after_s=7)
    if call.body.title == "gone":
        raise NotFoundError("no such thing")
    if call.body.title == "broken":
        raise ContextLimit("a failure of ours")


def lead_on(call: Call[Nothing, None]) -> Redirect:
    """Redirect to a file."""
    return Redirect(url=f"https://files.example/{call.path['rest']}")


ROUTER = Router(
    [
        Endpoint("GET", "/v1/things/{thing}", read),
        Endpoint("PATCH", "/v1/things/{thing}", rename),
        Endpoint("GET", "/v1/files/{rest+}", lead_on),
        Endpoint("GET", "/v1/{folder}/of/{rest+}/{how}", lead_on),
    ]
)


def ask(method: str, path: str, **given: Any) -> ApiResponse:
    return ROUTER.answer(SERVICES, ADA, Request(method=method, path=path, **given))


def rename_to(title: str) -> ApiResponse:
    return ask("PATCH", "/v1/things/a", headers=NEEDS_BODY, body=json.dumps({"title": title}).encode())


def test_names_in_a_path_are_decoded_once_and_hold_no_slash() -> None:
    assert json.loads(ask("GET", "/v1/things/a%2Fb%2525").body)["path"] == {"thing": "a/b%25"}
    assert ask("GET", "/v1/things/a/b").code == "not_found"
    assert ask("GET", "/v1/things/").code == "not_found"


def test_the_last_name_may_match_the_rest_of_a_path() -> None:
    answer = ask("GET", "/v1/files/a/b.txt")
    assert (answer.status, answer.headers["Location"]) == (302, "https://files.example/a/b.txt")


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("a/raw", "a"),
        ("a/b/c/raw", "a/b/c"),
        ("a%2Fb/raw", "a/b"),
        ("a//b/raw", "a//b"),
        ("of/raw/raw", "of/raw"),
    ],
)
def test_a_name_within_a_path_may_match_several_parts(path: str, rest: str) -> None:
    answer = ask("GET", f"/v1/x/of/{path}")
    assert (answer.status, answer.headers["Location"]) == (302, f"https://files.example/{rest}")


@pytest.mark.parametrize("path", ["/v1/x/of/raw", "/v1/x/of//raw", "/v1/x/of/", "/v1/x/of/a/", "/v1/x/raw"])
def test_a_name_matches_at_least_one_part(path: str) -> None:
    assert ask("GET", path).code == "not_found"


def test_a_query_is_read_from_texts() -> None:
    assert json.loads(ask("GET", "/v1/things/a", query={"limit": "7"}).body)["limit"] == 7


@pytest.mark.parametrize("query", [{"limit": "seven"}, {"limit": "1", "more": "2"}])
def test_an_invalid_query_is_refused(query: dict[str, str]) -> None:
    assert ask("GET", "/v1/things/a", query=query).code == "bad_message"


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        (NEEDS_BODY, b"{", "bad_message"),
        (NEEDS_BODY, b'{"title": 1}', "bad_message"),
        (NEEDS_BODY, b'{"title": "a", "b": 1}', "bad_message"),
        (NEEDS_BODY, b'"\xff"', "bad_message"),
        (NEEDS_BODY, b"x" * (BODY_MAX_BYTES + 1), "limit_exceeded"),
        ({"content-type": "text/plain"}, b"{}", "media_type"),
        ({}, b"{}", "media_type"),
    ],
)
def test_an_invalid_body_is_refused(headers: dict[str, str], body: bytes, code: str) -> None:
    assert ask("PATCH", "/v1/things/a", headers=headers, body=body).code == code


@pytest.mark.parametrize("key", ["", "a b", "a" * 129, "é"])
def test_an_idempotency_key_is_short_and_printable(key: str) -> None:
    assert ask("GET", "/v1/things/a", headers={"idempotency-key": key}).code == "bad_message"
    assert json.loads(ask("GET", "/v1/things/a", headers={"idempotency-key": "k"}).body)["key"] == "k"


def test_an_answer_larger_than_a_function_allows_is_refused() -> None:
    assert ask("GET", "/v1/things/long").code == "answer_too_large"


def test_an_empty_answer_has_no_content() -> None:
    assert (rename_to("b").status, rename_to("b").body) == (HTTPStatus.NO_CONTENT, b"")


@pytest.mark.parametrize(
    ("title", "status", "code", "retryable"),
    [("taken", 503, "busy", True), ("often", 429, "rate_limited", True), ("gone", 404, "not_found", False)],
)
def test_a_refusal_is_problem_details_with_a_stable_code(
    title: str, status: int, code: str, *, retryable: bool
) -> None:
    answer = rename_to(title)
    body = json.loads(answer.body)
    assert (answer.status, body["status"], body["code"], body["retryable"]) == (
        status,
        status,
        code,
        retryable,
    )
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers.get("Retry-After") == ("7" if title == "often" else None)


def test_an_internal_failure_propagates_to_the_edge() -> None:
    with pytest.raises(ContextLimit):
        rename_to("broken")


def test_every_endpoint_has_a_unique_name_and_a_summary() -> None:
    names = [endpoint.run.__name__ for endpoint in ENDPOINTS]
    assert len(set(names)) == len(names)
    assert all(endpoint.run.__doc__ for endpoint in ENDPOINTS)


def test_the_description_has_every_endpoint_with_every_status_it_can_answer() -> None:
    paths = render_openapi(ENDPOINTS)["paths"]
    for endpoint in ENDPOINTS:
        said = paths[endpoint.path.replace("+}", "}")][endpoint.method.lower()]["responses"]
        assert {str(int(status)) for status in codes_of(endpoint)} < said.keys()
