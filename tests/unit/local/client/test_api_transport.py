"""The transport below the client of the HTTP API: tokens, redirects, foreign refusals, and upload forms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from email.parser import BytesParser
from typing import Any

import pytest

from stepline.errors import DependencyError
from stepline.local.client.api_transport import ApiError, ApiTransport
from stepline.model.base import Value
from tests.support.api_server import served


class Peer:
    """Answers every request with one status, its headers and its body; keeps the requests."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = "200 OK", [], b"{}"
        self.seen: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        sent = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self.seen.append({**environ, "sent": sent})
        start(self.status, self.headers)
        return [self.body]


class Found(Value):
    """An answer."""

    x: int = 0


class Asked(Value):
    """A query."""

    text: str = ""
    whole: bool = False
    most: int = 1


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
def url(peer: Peer) -> Iterator[str]:
    with served(peer) as address:
        yield address


@pytest.fixture
def transport(url: str) -> Iterator[ApiTransport]:
    tokens = iter(range(100))
    with closing(ApiTransport(f"{url}/", lambda: f"t{next(tokens)}")) as found:
        yield found


def test_each_request_gets_its_own_token(transport: ApiTransport, peer: Peer) -> None:
    assert [transport._ask("GET", "/a", Found) for _ in range(2)] == [Found(), Found()]
    assert [one["HTTP_AUTHORIZATION"] for one in peer.seen] == ["Bearer t0", "Bearer t1"]


def test_a_query_says_what_is_not_as_by_default(transport: ApiTransport, peer: Peer) -> None:
    transport._ask("GET", "/a", Found, query=Asked(text="ä&b", whole=True))
    transport._ask("GET", "/a", Found, query=Asked())
    assert [one["QUERY_STRING"] for one in peer.seen] == ["text=%C3%A4%26b&whole=true", ""]


def test_a_redirect_is_handed_back_and_not_followed(transport: ApiTransport, peer: Peer, url: str) -> None:
    peer.status, peer.headers = "302 Found", [("Location", f"{url}/elsewhere")]
    assert transport._locate("GET", "/a") == f"{url}/elsewhere"
    with pytest.raises(ApiError) as error:
        transport._ask("GET", "/a", Found)
    assert (error.value.status, error.value.reason) == (302, "gateway")
    assert [one["PATH_INFO"] for one in peer.seen] == ["/a", "/a"]


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [
        ("403 Forbidden", "unauthorized", False),
        ("429 Too Many Requests", "gateway", True),
        ("503 Service Unavailable", "gateway", True),
        ("599 Whatever", "gateway", False),
    ],
)
def test_words_of_the_gateway_are_a_refusal_too(
    transport: ApiTransport, peer: Peer, status: str, code: str, again: bool
) -> None:
    peer.status, peer.body = status, b'{"message":"No"}'
    with pytest.raises(ApiError) as error:
        transport._call("PUT", "/a")
    assert (error.value.reason, error.value.problem.retryable) == (code, again)
    assert len(peer.seen) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"x":"1"}', b""])
def test_another_answer_than_the_endpoints_is_an_api_that_is_unreachable(
    transport: ApiTransport, peer: Peer, body: bytes
) -> None:
    peer.body = body
    with pytest.raises(DependencyError) as error:
        transport._ask("GET", "/a", Found)
    assert error.value.reason == "api_unreachable"


def test_a_form_goes_to_the_bucket_with_its_file_last_and_without_a_token(
    transport: ApiTransport, peer: Peer, url: str
) -> None:
    peer.status = "204 No Content"
    fields = {"key": "quarantine/k", "Content-Type": "text/plain", "policy": "p"}
    transport.post_form(f"{url}/bucket", fields, b"\x00file\r\n")
    (seen,) = peer.seen
    assert "HTTP_AUTHORIZATION" not in seen
    head = f"Content-Type: {seen['CONTENT_TYPE']}\r\n\r\n".encode()
    parts = [(_name(one), one.get_payload(decode=True)) for one in _form(head + seen["sent"])]
    wanted = [(name, text.encode()) for name, text in fields.items()]
    assert parts == [*wanted, ("file", b"\x00file\r\n")]


def _form(message: bytes) -> list[Message]:
    return BytesParser().parsebytes(message).get_payload()


def _name(one: Message) -> Any:
    return one.get_param("name", header="content-disposition")


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"<Error><Code>EntityTooLarge</Code></Error>", "EntityTooLarge"), (b"", "nothing")],
)
def test_a_form_that_the_bucket_does_not_take_is_refused_with_its_reason(
    transport: ApiTransport, peer: Peer, url: str, body: bytes, said: str
) -> None:
    peer.status, peer.body = "400 Bad Request", body
    with pytest.raises(ApiError, match=said) as error:
        transport.post_form(f"{url}/bucket", {"key": "k"}, b"x")
    assert (error.value.status, error.value.reason) == (400, "form_refused")
