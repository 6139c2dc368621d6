"""Rights to single objects: each names one request, and a write is one that happens once."""

from __future__ import annotations

import urllib.parse

import pytest
import requests

from stepline.errors import DependencyError, NotFoundError
from stepline.model.file.served_form import serve_as

from .conftest import Memory


class Http:
    """A holder of grants, by the one library that moto answers."""

    def get(self, grant):
        answer = requests.get(grant.url, headers=grant.headers, timeout=60)
        if answer.status_code == 404:
            raise NotFoundError("no such object")
        answer.raise_for_status()
        return answer.content

    def put(self, grant, body):
        answer = requests.put(grant.url, data=body, headers=grant.headers, timeout=60)
        if answer.status_code == 412:
            return False
        answer.raise_for_status()
        return True


@pytest.fixture
def objects(backend):
    return backend.grants if isinstance(backend, Memory) else Http()


@pytest.fixture
def served(backend):
    """Return what gives the bytes of a served object, and its headers in small letters."""

    def in_memory(grant):
        data, form = backend.grants.fetch(grant)
        return data, {"content-type": form.mime, "content-disposition": form.disposition}

    def over_http(grant):
        answer = requests.get(grant.url, timeout=60)
        answer.raise_for_status()
        return answer.content, {name.lower(): text for name, text in answer.headers.items()}

    return in_memory if isinstance(backend, Memory) else over_http


@pytest.fixture
def key(lane) -> str:
    return f"exec/{lane.prefix()}/turn_1/tc_0123456789ab/run.json"


def test_a_read_grant_gets_the_object_and_says_nothing_before_it_exists(backend, objects, key):
    grant = backend.grants.read(key, ttl_s=60)
    with pytest.raises(NotFoundError):
        objects.get(grant)
    backend.artifacts.put(key, b"bytes", mime="text/plain")
    assert objects.get(grant) == b"bytes"


def test_a_right_to_write_puts_the_object_once(backend, objects, key):
    grant = backend.grants.write(key, mime="application/json", ttl_s=60)
    assert objects.put(grant, b"first")
    assert not objects.put(grant, b"second")
    assert backend.artifacts.get(key) == b"first"


def test_a_grant_to_overwrite_replaces_the_object(backend, objects, key):
    grant = backend.grants.rewrite(key, mime="application/json", ttl_s=60)
    assert objects.put(grant, b"first, and longer")
    assert objects.put(grant, b"second")
    assert backend.artifacts.get(key) == b"second"


def test_an_object_of_the_loop_is_not_overwritten(backend, objects, key):
    backend.artifacts.put(key, b"ours", mime="application/json")
    assert not objects.put(backend.grants.write(key, mime="application/json", ttl_s=60), b"theirs")
    assert backend.artifacts.get(key) == b"ours"


def test_a_large_body_is_read_in_pieces(backend, key):
    body = bytes(range(256)) * 10_000
    backend.artifacts.put(key, body, mime="application/octet-stream")
    pieces = list(backend.artifacts.stream(key))
    assert b"".join(pieces) == body
    assert len(pieces) > 1
    with pytest.raises(NotFoundError):
        list(backend.artifacts.stream(f"{key}.absent"))


def test_a_right_in_memory_ends_with_its_time_and_is_for_one_method():
    memory = Memory()
    memory.artifacts.put("k", b"x", mime="text/plain")
    grant = memory.grants.read("k", ttl_s=60)
    with pytest.raises(DependencyError):
        memory.grants.put(grant, b"y")
    shown = memory.grants.serve("k", serve_as("text/plain", "k", "preview"), ttl_s=60)
    memory.clock.pause(61)
    with pytest.raises(DependencyError):
        memory.grants.get(grant)
    with pytest.raises(DependencyError):
        memory.grants.fetch(shown)


def test_the_condition_and_the_type_of_a_put_are_signed(aws, key):
    grant = aws.grants.write(key, mime="application/json", ttl_s=60)
    said = urllib.parse.parse_qs(urllib.parse.urlsplit(grant.url).query)
    assert said["X-Amz-SignedHeaders"] == ["content-type;host;if-none-match"]
    assert said["X-Amz-Expires"] == ["60"]
    assert said["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert grant.headers == {"Content-Type": "application/json", "If-None-Match": "*"}


def test_of_a_right_to_write_again_only_the_condition_is_left_out(aws, key):
    grant = aws.grants.rewrite(key, mime="application/json", ttl_s=60)
    said = urllib.parse.parse_qs(urllib.parse.urlsplit(grant.url).query)
    assert said["X-Amz-SignedHeaders"] == ["content-type;host"]
    assert urllib.parse.urlsplit(grant.url).path.endswith(key)
    assert grant.headers == {"Content-Type": "application/json"}


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1"])
def test_a_url_is_of_the_buckets_own_host_in_its_region(moto_aws, key, monkeypatch, region):
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    grants = type(moto_aws.grants)(moto_aws.name)
    host = urllib.parse.urlsplit(grants.read(key, ttl_s=60).url).hostname
    assert host == f"{moto_aws.name}.s3.{region}.amazonaws.com"


HOSTILE = (
    "a b.md",
    'a"; filename="b.exe',
    "a\r\nX-A: b.md",
    "../../a.md",
    "annual\u202etxt.exe",
    "ä" * 127,
    "%41&b=c;d.md",
)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "asked", [("text/markdown", "preview"), ("text/html", "preview"), ("image/png", "download")]
)
def test_a_right_to_be_served_fixes_how_the_object_leaves(backend, served, key, name, asked):
    mime, wanted = asked
    form = serve_as(mime, name, wanted)
    backend.artifacts.put(key, b"<b>", mime="text/html")
    data, headers = served(backend.grants.serve(key, form, ttl_s=60))
    assert (data, headers["content-type"], headers["content-disposition"]) == (
        b"<b>",
        form.mime,
        form.disposition,
    )
    assert headers["content-disposition"].startswith("inline" if mime == "text/markdown" else "attachment")


def test_the_headers_of_a_served_object_are_in_the_signature(aws, key):
    url = aws.grants.serve(key, serve_as("image/png", "ä.png", "preview"), ttl_s=60).url
    said = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
    assert said["response-content-type"] == ["image/png"]
    assert said["response-content-disposition"] == ["inline; filename=\"_.png\"; filename*=UTF-8''%C3%A4.png"]
    assert said["response-cache-control"] == ["private, no-store"]
    assert said["X-Amz-Expires"] == ["60"]
