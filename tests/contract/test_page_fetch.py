"""Pages from a real server: what is read, and every way in which a hostile one is refused or cut, and nothing hangs."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Iterator

import pytest

from stepline.adapters.web.page_fetch import FetchLimits, PageFetcher
from stepline.errors import ToolError
from tests.support.certificate import write_certificate
from tests.support.free_port import free_port
from tests.support.web_server import SITE, WebServer, endless, open_guard, reply, web_server

ARTICLE = """<!doctype html><html lang="en"><head><title>Herons of the lake</title>
<meta name="author" content="Ada"><meta property="article:published_time" content="2026-05-01T10:00:00Z"></head>
<body><nav><ul><li><a href="/">Home</a></li><li><a href="/shop">Shop</a></li></ul></nav>
<article><h1>Herons of the lake</h1>
<p>Grey herons nest in the old trees on the northern shore, and the colony has grown each year since the reeds came back.</p>
<p>They fish at dawn, standing still in shallow water until a perch swims within reach, and they are gone by noon.</p>
<p>Counts are made in April, before the leaves hide the nests; last spring there were forty-one pairs on nine trees.</p>
</article><script>steal()</script><footer>All rights reserved, cookies, imprint</footer></body></html>"""
LITTLE = FetchLimits(body_bytes=100_000)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as served:
        yield served


@pytest.fixture
def inside() -> Iterator[WebServer]:
    """Serve on loopback itself, where nothing from outside may lead."""
    with web_server("127.0.0.1", free_port()) as served:
        yield served


@pytest.fixture
def outside(inside: WebServer) -> Iterator[WebServer]:
    """Serve on the public address, at the port of the server inside."""
    with web_server(port=inside.port) as served:
        yield served


def fetcher(server: WebServer, limits: FetchLimits = LITTLE, **names: str | list[str]) -> PageFetcher:
    return PageFetcher(guard=open_guard(server, **names), limits=limits)


def code(fetch: PageFetcher, url: str) -> str:
    with pytest.raises(ToolError) as refused:
        fetch.fetch(url)
    return refused.value.reason


# --- what is read


def test_an_article_is_its_text_without_the_menus_around_it(server):
    page = fetcher(server).fetch(server.says("/herons", ARTICLE))
    assert page.title == "Herons of the lake"
    assert "forty-one pairs" in page.text
    assert "steal" not in page.text
    assert "Shop" not in page.text
    assert (page.mime, page.author, page.published_time_iso) == (
        "text/html",
        "Ada",
        "2026-05-01T10:00:00+00:00",
    )
    assert (page.url, page.final_url, page.truncated) == (server.url("/herons"), server.url("/herons"), False)


def test_a_request_names_its_host_and_nothing_about_the_caller(server):
    fetcher(server).fetch(server.says("/a", ARTICLE))
    ((method, path, heads, body),) = server.requests
    assert (method, path, body) == ("GET", "/a", b"")
    assert heads["host"] == f"site.example:{server.port}"
    assert heads.keys() == {"host", "user-agent", "accept", "accept-encoding", "connection"}


@pytest.mark.parametrize(
    ("mime", "body", "text"),
    [
        ("text/plain; charset=latin-1", "caf\u00e9".encode("latin-1"), "caf\u00e9"),
        ("text/plain; charset=none-such", "caf\u00e9".encode(), "caf\u00e9"),
        ("text/markdown", b"# One\n\ntwo", "# One\n\ntwo"),
        ("application/json", b'{"a": [1, 2]}', '{"a": [1, 2]}'),
        ("application/ld+json", b"[]", "[]"),
        ("application/atom+xml", b"<feed><title>t</title></feed>", "<feed><title>t</title></feed>"),
        ("application/x-ndjson", b"{}\n[]\n", "{}\n[]\n"),
        ("application/jsonl", b"{}\n[]\n", "{}\n[]\n"),
        ("text/plain; charset=idna", "caf\u00e9".encode(), "caf\u00e9"),
        ("application/json; charset=undefined", b"[]", "[]"),
        (
            "text/xml",
            '<?xml version="1.0" encoding="UTF-16"?><a/>'.encode("utf-16"),
            '<?xml version="1.0" encoding="UTF-16"?><a/>',
        ),
    ],
)
def test_text_json_and_xml_are_read_as_they_are(server, mime, body, text):
    assert fetcher(server).fetch(server.says("/a", body, mime)).text == text


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_page_is_unpacked(server, pack):
    encoding = "gzip" if pack is gzip.compress else "deflate"
    url = server.says("/a", pack(ARTICLE.encode()), headers={"Content-Encoding": encoding})
    assert "forty-one pairs" in fetcher(server).fetch(url).text


def test_a_redirect_is_followed_and_the_address_that_was_asked_stays(server):
    server.says("/b", ARTICLE)
    page = fetcher(server).fetch(server.redirects("/a", "/b", 308))
    assert (page.url, page.final_url) == (server.url("/a"), server.url("/b"))


# --- addresses


@pytest.mark.parametrize(
    ("place", "refused"),
    [
        ("http://169.254.169.254/latest/meta-data/", "address_refused"),
        ("http://[::1]/", "address_refused"),
        ("http://[::ffff:127.0.0.1]/", "address_refused"),
        ("http://127.0.0.1/", "address_refused"),
        ("http://2130706433/", "url_refused"),
        ("http://0177.0.0.1/", "url_refused"),
        ("http://localhost/", "url_refused"),
        ("http://user:word@site.example/", "url_refused"),
        ("http://site.example:22/", "url_refused"),
        ("http://[", "url_refused"),
        ("file:///etc/passwd", "url_refused"),
    ],
)
def test_a_redirect_to_a_forbidden_address_is_refused(outside, inside, place, refused):
    for host in ("127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]"):
        place = place.replace(f"//{host}/", f"//{host}:{inside.port}/")
    assert code(fetcher(outside), outside.redirects("/a", place)) == refused
    assert inside.requests == []
    assert len(outside.requests) == 1


def test_a_host_is_resolved_once_and_later_answers_do_not_count(outside, inside):
    looks = [SITE, "127.0.0.1"]
    inside.says("/a", "secret")
    page = fetcher(outside, rebinds_example=looks).fetch(
        outside.says("/a", ARTICLE).replace("site.", "rebinds.")
    )
    assert "forty-one pairs" in page.text
    assert looks == ["127.0.0.1"]
    assert inside.requests == []


def test_a_name_that_leads_to_loopback_at_its_second_look_up_is_refused_there(outside, inside):
    looks = [SITE, "127.0.0.1"]
    place = outside.redirects("/a", outside.url("/a", host="rebinds.example")).replace("site.", "rebinds.")
    assert code(fetcher(outside, rebinds_example=looks), place) == "address_refused"
    assert looks == []
    assert inside.requests == []


def test_redirects_come_to_an_end(server):
    assert code(fetcher(server), server.redirects("/a", "/a")) == "too_many_redirects"
    assert len(server.requests) == LITTLE.redirects + 1


def test_a_silent_host_is_unreachable(server):
    url = server.url("/a")
    with web_server() as other:
        gone = fetcher(other)
        url = other.url("/a")
    assert code(gone, url) == "unreachable"


# --- size and time


def test_a_huge_page_is_cut_and_says_so(server):
    page = fetcher(server).fetch(server.says("/a", "word " * 100_000, "text/plain"))
    assert page.truncated
    assert len(page.text) == LITTLE.body_bytes


def test_an_endless_page_is_cut(server):
    server.answers["/a"] = endless(b"word " * 1_000, "text/plain")
    assert len(fetcher(server).fetch(server.url("/a")).text) == LITTLE.body_bytes


def test_a_page_that_is_small_on_the_wire_and_huge_unpacked_is_cut(server):
    body = gzip.compress(b"a" * 50_000_000)
    page = fetcher(server).fetch(server.says("/a", body, "text/plain", headers={"Content-Encoding": "gzip"}))
    assert (len(page.text), page.truncated) == (LITTLE.body_bytes, True)


def test_json_that_is_too_large_is_refused_because_half_of_it_is_none(server):
    body = json.dumps(["word"] * 50_000)
    assert code(fetcher(server), server.says("/a", body, "application/json")) == "page_too_large"


def test_a_page_that_drips_ends_with_its_time(server):
    server.answers["/a"] = endless(b"x", "text/plain")
    # A clock that moves with each look: the page's time ends after a number of reads, even quick ones.
    slow = PageFetcher(
        guard=open_guard(server),
        limits=FetchLimits(page_s=40, body_bytes=10**9),
        clock=itertools.count().__next__,
    )
    assert code(slow, server.url("/a")) == "timeout"


def test_a_head_that_never_ends_is_ended(server):
    def answer(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for at in range(100_000):
            handler.wfile.write(f"X-{at}: {'y' * 60}\r\n".encode())

    server.answers["/a"] = answer
    assert code(fetcher(server), server.url("/a")) == "answer_malformed"


def test_a_server_that_is_silent_is_left(server):
    import threading

    over = threading.Event()
    server.answers["/a"] = lambda _: over.wait(30)
    try:
        assert code(fetcher(server, FetchLimits(silence_s=0.05)), server.url("/a")) == "timeout"
    finally:
        over.set()


# --- types and formats


@pytest.mark.parametrize(
    ("mime", "body"),
    [
        ("application/pdf", b"%PDF-1.7"),
        ("image/png", b"\x89PNG"),
        ("application/octet-stream", b"text"),
        ("", b"<p>text</p>"),
        ("text/html", b"%PDF-1.7 ..."),
        ("text/html", b"\x89PNG\r\n\x1a\n\0\0"),
        ("text/plain", b"PK\x03\x04"),
        ("text/plain", b"one\0two"),
        ("application/json", b"<html></html>"),
    ],
)
def test_binary_content_is_refused_despite_its_declared_type(server, mime, body):
    assert code(fetcher(server), server.says("/a", body, mime)) == "type_refused"


def test_json_that_is_too_deep_is_refused(server):
    assert code(fetcher(server), server.says("/a", b"[" * 5_000, "application/json")) == "page_unreadable"


def test_a_title_with_half_a_character_costs_no_page(server):
    url = server.says("/a", "<title>&#xD800;a</title><p>&#xDFFF; some text", "text/html")
    assert "some text" in fetcher(server).fetch(url).text


@pytest.mark.parametrize(
    "mime",
    ["text/plain; charset*=idna'x'%FF%00", 'text/plain; charset="\\"', "text/plain; charset=" + "x" * 5_000],
)
def test_an_unusual_header_does_not_fail_a_page(server, mime):
    assert fetcher(server).fetch(server.says("/a", "some text", mime)).text == "some text"


def test_a_page_without_a_word_has_no_content(server):
    url = server.says("/a", "<html><body><script>x()</script></body></html>")
    assert code(fetcher(server), url) == "insufficient_content"
    assert code(fetcher(server), server.says("/b", b"", "text/plain")) == "insufficient_content"


def test_another_status_is_its_own_code(server):
    assert code(fetcher(server), server.url("/none")) == "http_404"
    server.answers["/a"] = lambda handler: reply(handler, b"", status=503)
    assert code(fetcher(server), server.url("/a")) == "http_503"
    server.answers["/b"] = lambda handler: reply(handler, b"", status=302)
    assert code(fetcher(server), server.url("/b")) == "http_302"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\nno gzip",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nbroken off",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_a_response_that_is_not_http_is_malformed(server, answer):
    server.answers["/a"] = lambda handler: handler.wfile.write(answer)
    assert code(fetcher(server), server.url("/a")) == "answer_malformed"


def test_an_unrequested_encoding_is_refused(server):
    url = server.says("/a", b"x", "text/plain", headers={"Content-Encoding": "br"})
    assert code(fetcher(server), url) == "type_refused"


def test_a_server_that_hangs_up_is_unreachable(server):
    server.answers["/a"] = lambda _: None
    assert code(fetcher(server), server.url("/a")) == "unreachable"


def test_a_page_that_no_extractor_reads_in_time_is_refused_and_its_process_ended(server, monkeypatch):
    monkeypatch.setattr("stepline.adapters.web.page_fetch.READ_S", 0.5)
    deep = "<div>" * 20_000 + "text" + "</div>" * 20_000
    page = fetcher(server, FetchLimits())
    assert code(page, server.says("/a", f"<html><body>{deep * 8}</body></html>")) == "page_unreadable"


def test_the_process_that_reads_a_page_has_nothing_of_ours(server, monkeypatch, tmp_path):
    seen = tmp_path / "seen"
    spy = tmp_path / "spy.py"
    spy.write_text(
        f"import os, json; json.dump(dict(os.environ), open({str(seen)!r}, 'w')); print('{{\"text\": \"read\"}}')"
    )
    monkeypatch.setattr("stepline.adapters.web.page_fetch._PROGRAM", spy)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    assert fetcher(server).fetch(server.says("/a", ARTICLE)).text == "read"
    assert "secret" not in seen.read_text()


# --- TLS


def certificate(path, host: str):
    """Write a certificate that signs itself, and return what a server and its client make of it."""
    import ssl

    both = write_certificate(path, host)
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(both)
    return serves, lambda: ssl.create_default_context(cafile=both)


def test_tls_names_the_host_and_holds_it_to_its_certificate(tmp_path):
    serves, trusts = certificate(tmp_path, "site.example")
    asked: list[str | None] = []
    serves.sni_callback = lambda _, name, __: asked.append(name)
    with web_server(certificate=serves) as server:
        fetch = PageFetcher(guard=open_guard(server), trust=trusts)
        server.says("/a", ARTICLE)
        assert "forty-one" in fetch.fetch(server.url("/a", scheme="https")).text
        assert asked == ["site.example"]
        assert code(fetch, server.url("/a", host="other.example", scheme="https")) == "unreachable"
        assert len(server.requests) == 1
