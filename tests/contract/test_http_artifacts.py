"""The store for a holder of grants: in memory, and over HTTP from a server of the test."""

from __future__ import annotations

import logging
import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

import pytest

from stepline.adapters.http_artifacts import TRIES, GrantedArtifacts, HttpArtifacts
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.grant import MemoryGrants
from stepline.errors import DependencyError, NotFoundError, SteplineError
from stepline.model.program.handover import ObjectGrant
from tests.contract.task_services import Cloud

WRITE = {"Content-Type": "x/y", "If-None-Match": "*"}


class InMemory:
    def __init__(self) -> None:
        self._artifacts = MemoryArtifacts()
        self.objects = self._grants = MemoryGrants(self._artifacts, MemoryClock())

    def grant(self, method: str, key: str) -> ObjectGrant:
        if method == "GET":
            return self._grants.read(key, ttl_s=60)
        return self._grants.write(key, mime="x/y", ttl_s=60)

    def rewrite(self, key: str) -> ObjectGrant:
        return self._grants.rewrite(key, mime="x/y", ttl_s=60)


class OverHttp:
    def __init__(self, cloud: Cloud) -> None:
        self.objects = HttpArtifacts(sleep=lambda _seconds: None)
        self.cloud = cloud
        self.grant = cloud.grant

    def rewrite(self, key: str) -> ObjectGrant:
        return self.cloud.grant("PUT", key, again=True)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Cloud() as made:
        yield made


@pytest.fixture
def http(cloud) -> OverHttp:
    return OverHttp(cloud)


@pytest.fixture(params=["memory", "http"])
def store(request) -> InMemory | OverHttp:
    return InMemory() if request.param == "memory" else request.getfixturevalue("http")


def test_a_stored_object_is_read_back(store, tmp_path):
    file = tmp_path / "body"
    file.write_bytes(b"x" * 300_000)
    assert store.objects.put(store.grant("PUT", "größe/a b"), "ä".encode())
    assert store.objects.put(store.grant("PUT", "file"), file)
    assert store.objects.put(store.grant("PUT", "empty"), b"")
    assert store.objects.get(store.grant("GET", "größe/a b")).decode() == "ä"
    assert store.objects.get(store.grant("GET", "file")) == b"x" * 300_000
    assert store.objects.get(store.grant("GET", "empty")) == b""


def test_an_object_is_put_once(store):
    assert store.objects.put(store.grant("PUT", "key"), b"first")
    assert not store.objects.put(store.grant("PUT", "key"), b"second")
    assert store.objects.get(store.grant("GET", "key")) == b"first"


def test_an_object_is_put_over_by_a_right_to_that(store):
    grant = store.rewrite("key")
    assert store.objects.put(grant, b"first")
    assert store.objects.put(grant, b"second")
    assert store.objects.get(store.grant("GET", "key")) == b"second"


def test_an_object_that_is_not_there_is_not_found(store):
    with pytest.raises(NotFoundError):
        store.objects.get(store.grant("GET", "none"))


def test_a_right_to_one_request_is_none_to_another(store):
    store.objects.put(store.grant("PUT", "key"), b"first")
    with pytest.raises(DependencyError):
        store.objects.get(store.grant("PUT", "key"))


# --- over HTTP


def test_an_early_refusal_of_a_large_body_is_read(tmp_path):
    file = tmp_path / "body"
    file.write_bytes(bytes(20_000_000))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                while b"\r\n\r\n" not in connection.recv(65_536):
                    pass
                connection.sendall(b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n")

        server_thread = threading.Thread(target=refuse)
        server_thread.start()
        assert not HttpArtifacts().put(ObjectGrant(url=f"http://127.0.0.1:{port}/key", headers=WRITE), file)
        server_thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "http://bucket.s3.amazonaws.com/key?right=secret",
        "http://127.0.0.1.example.com/key?right=secret",
        "ftp://127.0.0.1/key?right=secret",
        "file:///etc/passwd?right=secret",
        "http://[::1/key?right=secret",
        "https:///key?right=secret",
        "",
    ],
)
def test_no_right_is_carried_in_the_open(http, url):
    with pytest.raises(DependencyError) as caught:
        http.objects.get(ObjectGrant(url=url))
    assert caught.value.reason == "grant_refused"
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@contextmanager
def answers(
    http: OverHttp, patch: pytest.MonkeyPatch, *given: HTTPStatus | type[OSError]
) -> Iterator[list[str]]:
    """Have the server answer these before it does what it is asked; yield what it was asked."""
    handler, left, asked = http.cloud._server.RequestHandlerClass, list(given), []
    for method in ("GET", "PUT"):
        done = getattr(handler, f"do_{method}")

        def do(self, method=method, done=done):
            asked.append(method)
            if not left:
                done(self)
                return
            if method == "PUT":
                self._body()
            answer = left.pop(0)
            if isinstance(answer, HTTPStatus):
                self.send_response(answer)
                self.send_header("Location", self.cloud.url)
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        patch.setattr(handler, f"do_{method}", do)
    yield asked


@pytest.mark.parametrize(
    "answer",
    [
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.CONFLICT,
        ConnectionError,
    ],
)
def test_a_transient_failure_is_retried_with_the_whole_body(http, monkeypatch, tmp_path, answer):
    file = tmp_path / "body"
    file.write_bytes(b"whole")
    with answers(http, monkeypatch, answer, answer) as asked:
        assert http.objects.put(http.grant("PUT", "key"), file)
        assert http.objects.get(http.grant("GET", "key")) == b"whole"
    assert asked == ["PUT"] * 3 + ["GET"]


def test_a_store_that_does_not_come_back_is_given_up(http, monkeypatch):
    with (
        answers(http, monkeypatch, *[HTTPStatus.SERVICE_UNAVAILABLE] * 99) as asked,
        pytest.raises(DependencyError, match="not to be reached"),
    ):
        http.objects.get(http.grant("GET", "key"))
    assert len(asked) == TRIES


def test_between_tries_there_is_a_pause_of_random_length(cloud, monkeypatch):
    pauses: list[float] = []
    http = OverHttp(cloud)
    http.objects = HttpArtifacts(sleep=pauses.append)
    with answers(http, monkeypatch, *[HTTPStatus.SERVICE_UNAVAILABLE] * 3):
        http.objects.put(http.grant("PUT", "key"), b"x")
    assert len(pauses) == len(set(pauses)) == 3


@pytest.mark.parametrize(
    "answer", [HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST, HTTPStatus.FOUND, HTTPStatus.TEMPORARY_REDIRECT]
)
def test_a_refusal_is_final_and_no_redirect_is_followed(http, monkeypatch, caplog, answer):
    caplog.set_level(logging.DEBUG)
    grant = http.grant("GET", "key")
    with answers(http, monkeypatch, answer) as asked, pytest.raises(DependencyError) as caught:
        http.objects.get(grant)
    assert caught.value.reason == "grant_refused"
    assert asked == ["GET"]
    right = grant.url.partition("right=")[2]
    assert right not in "".join(traceback.format_exception(caught.value)) + caplog.text


def test_a_refused_connection_is_reported_without_the_url(cloud):
    grant = cloud.grant("GET", "key")
    objects = HttpArtifacts(sleep=lambda _seconds: None)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/key?right=secret"
        with pytest.raises(DependencyError, match="ConnectionRefusedError") as caught:
            objects.get(ObjectGrant(url=url, headers=grant.headers))
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_granted_artifacts_are_those_that_were_granted_and_to_read_only(store):
    store.objects.put(store.grant("PUT", "mine"), b"mine")
    store.objects.put(store.grant("PUT", "other"), b"other")
    artifacts = GrantedArtifacts({"mine": store.grant("GET", "mine")}, store.objects)
    assert artifacts.get("mine") == b"".join(artifacts.stream("mine")) == b"mine"
    with pytest.raises(NotFoundError):
        artifacts.get("other")
    with pytest.raises(SteplineError) as caught:
        artifacts.put("new", b"", mime="x/y")
    assert caught.value.reason == "not_granted"
