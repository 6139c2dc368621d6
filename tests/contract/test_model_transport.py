"""The transports of models: our own of Messages beside the SDK's, and what those of the other wires do as well."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from msgspec.structs import replace

from stepline.adapters.provider.client import ANSWER_MIN_CHARS, ProviderClient
from stepline.adapters.provider.wire import Retry, Timeouts
from stepline.errors import (
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)
from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.cache import CacheUse
from stepline.local.scripted.fault import Fault
from stepline.local.scripted.server import ScriptedServer
from stepline.ports.model import Completion, ModelRequest, Part
from tests.contract.reply_server import Reply, Scripted
from tests.support.asked_provider import QUICK, ask_anthropic, ask_chat, ask_converse
from tests.support.certificate import write_certificate
from tests.support.files import FILES

REQUEST = ModelRequest(
    role="solver.react.decision",
    system=(Part(text="S" * 8000, cache=True),),
    content=(Part(text="one"), Part(text="zwei 😀", cache=True), *FILES, Part(text="three")),
    max_tokens=4000,
    temperature=0.5,
)


RECORDED = sorted((Path(__file__).parents[1] / "data/streams").iterdir())
USE = CacheUse(read=0, write_5m=0, write_1h=0, plain=9)
OPENING = [
    *wire.opening(ident="msg_1", model="m", use=USE),
    wire.block_start(0, {"type": "text", "text": ""}),
]
CLOSING = [
    {"type": "content_block_stop", "index": 0},
    *wire.closing(stop=wire.Stop(), counts=wire.usage(USE, output_tokens=9)),
]


def streamed(*events: wire.Event | bytes) -> Reply:
    """A stream of events; bytes are sent as they are."""
    data = b"".join(one if isinstance(one, bytes) else wire.encode_sse(one) for one in events)
    return Reply(body=data, headers=(("content-type", "text/event-stream"),))


def complete(client: ProviderClient, request: ModelRequest = REQUEST) -> tuple[str, Completion]:
    with client.stream(request) as stream:
        text = "".join(stream)
    return text, stream.completion()


class Make(Protocol):
    """Make a client on one of the transports; it is closed after the test."""

    def __call__(
        self, url: str, *, retry: Retry = QUICK, timeouts: Timeouts | None = None
    ) -> ProviderClient: ...


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(token_delay_ms=0) as running:
        yield running


ASKED: Final[Mapping[str, Callable[..., ProviderClient]]] = {
    "http": ask_anthropic,
    "sdk": partial(ask_anthropic, by_sdk=True),
    "chat": ask_chat,
    "converse": ask_converse,
}


@contextmanager
def making(name: str) -> Iterator[Make]:
    made: list[ProviderClient] = []

    def build(url: str, *, retry: Retry = QUICK, timeouts: Timeouts | None = None) -> ProviderClient:
        made.append(ASKED[name](url, retry=retry, timeouts=timeouts))
        return made[-1]

    yield build
    for client in made:
        client.close()


@pytest.fixture(params=["http", "sdk"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make clients of Messages."""
    with making(request.param) as build:
        yield build


@pytest.fixture(params=ASKED)
def make_any(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make clients on any transport."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with making(request.param) as build:
        yield build


@pytest.fixture
def client(server: ScriptedServer, make: Make) -> ProviderClient:
    return make(server.url)


@pytest.fixture
def any_client(server: ScriptedServer, make_any: Make) -> ProviderClient:
    return make_any(server.url)


def test_one_connection_serves_the_next_call_too(
    server: ScriptedServer, any_client: ProviderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: set[object] = set()
    accept = server.process_request

    def seen(request: Any, client_address: Any) -> None:
        ports.add(client_address)
        accept(request, client_address)

    monkeypatch.setattr(server, "process_request", seen)
    for _ in range(3):
        with any_client.stream(REQUEST) as stream:
            list(stream)
    assert len(ports) == 1


def test_an_abort_wakes_a_thread_that_waits_for_the_next_event(
    server: ScriptedServer, any_client: ProviderClient
) -> None:
    server.faults.add({"kind": "slow_tokens", "token_delay_ms": 60_000})
    first = threading.Event()
    stream = any_client.stream(REQUEST)

    def read() -> None:
        with stream:
            for _ in stream:
                first.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert first.wait(timeout=60)
    stream.abort()
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert stream.completion().aborted
    assert stream.completion().usage.prompt_tokens > 2000


def test_an_abort_wakes_a_thread_that_waits_for_the_first_word(make_any: Make) -> None:
    asked, ended = threading.Event(), threading.Event()

    def listen(door: socket.socket) -> None:
        line, _ = door.accept()
        with line:
            line.recv(64)
            asked.set()
            assert ended.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as door:
        silent = threading.Thread(target=listen, args=(door,))
        silent.start()
        client = make_any(f"http://127.0.0.1:{door.getsockname()[1]}", retry=Retry(tries=1))
        with client.stream(REQUEST) as stream:
            aborter = threading.Thread(target=lambda: asked.wait(60) and stream.abort())
            aborter.start()
            assert list(stream) == []
            aborter.join()
        assert not ended.is_set()
        ended.set()
        silent.join()
    done = stream.completion()
    assert (done.aborted, done.text, done.usage.estimated) == (True, "", True)
    assert done.usage.prompt_tokens > 1000


def test_an_abort_wakes_a_thread_that_waits_for_another_try(server: ScriptedServer, make_any: Make) -> None:
    client = make_any(server.url, retry=Retry(base_s=0, retry_after_max_s=1000, budget_s=1000))
    server.faults.add({"kind": "rate_limited", "retry_after_s": 900})
    stream = client.stream(REQUEST)
    reader = threading.Thread(target=lambda: list(stream), daemon=True)
    reader.start()
    while not server.requests:
        reader.join(timeout=0.01)
    stream.abort()
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert len(server.requests) == 1


def test_silence_is_a_timeout(server: ScriptedServer, make_any: Make) -> None:
    client = make_any(server.url, retry=Retry(tries=1), timeouts=Timeouts(read_s=0.05))
    server.faults.add({"kind": "slow_tokens", "first_delay_ms": 2000})
    with client.stream(REQUEST) as stream, pytest.raises(ModelTimeout) as caught:
        list(stream)
    assert caught.value.reason == "model_timeout"


def test_a_refused_connection_is_unreachable(make_any: Make) -> None:
    with socket.socket() as taken:  # so that no other process listens there
        taken.bind(("127.0.0.1", 0))
        client = make_any(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with client.stream(REQUEST) as stream, pytest.raises(ModelUnreachable) as caught:
            list(stream)
    assert caught.value.reason == "model_unreachable"
    assert stream.completion().retries == 2


@pytest.mark.parametrize("delta", [{"type": "text_delta"}, {"type": "text_delta", "text": ["a"]}], ids=repr)
def test_a_delta_with_unreadable_text_is_malformed(
    server: ScriptedServer, client: ProviderClient, monkeypatch: pytest.MonkeyPatch, delta: object
) -> None:
    monkeypatch.setattr(wire, "delta", lambda *_: {"type": "content_block_delta", "index": 0, "delta": delta})
    with client.stream(REQUEST) as stream, pytest.raises(ModelStreamBroken) as caught:
        list(stream)
    assert caught.value.reason == "stream_malformed"


def test_both_send_the_same_request() -> None:
    asked = []
    for by_sdk in (False, True):
        with Scripted(streamed(*OPENING, *CLOSING)) as server:
            client = ask_anthropic(f"{server.url}/below/", by_sdk=by_sdk)
            complete(client)
            client.close()
        asked += server.asked
    (path, headers, body), (sdk_path, sdk_headers, sdk_body) = asked
    assert json.loads(body) == json.loads(sdk_body)
    names = ("anthropic-version", "authorization", "content-type", "accept")
    assert {name: headers[name] for name in names} == {name: sdk_headers[name] for name in names}
    assert path == sdk_path == "/below/v1/messages"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_stream_is_replayed_unchanged(path: Path, server: ScriptedServer, make_any: Make) -> None:
    text = path.read_bytes().decode()
    server.faults.add({"kind": "fixture", "text": text})
    said, done = complete(make_any(server.url))
    assert said == done.text == text


HELLO = streamed(
    b": a comment\n\n", *OPENING, {"type": "something_new", "delta": 5}, wire.delta("hello"), *CLOSING
)
MESSAGE = wire.message(
    [{"type": "text", "text": "hello"}], ident="msg_1", model="m", stop=wire.Stop(), counts={}
)
WHOLE = {
    "lines that end in a return": Reply(body=HELLO.body.replace(b"\n", b"\r")),
    "no end but the stop reason": streamed(*OPENING, wire.delta("hello"), *CLOSING[:-1]),
    "no empty line": Reply(body=HELLO.body.rstrip()),
    "text in a block": streamed(
        *OPENING[:1], wire.block_start(0, {"type": "text", "text": "hello"}), *CLOSING
    ),
    "no stream": Reply(body=json.dumps(MESSAGE).encode(), headers=(("content-type", "application/json"),)),
}


@pytest.mark.parametrize("reply", WHOLE.values(), ids=WHOLE)
def test_an_answer_that_has_come_is_one_to_both(make: Make, reply: Reply) -> None:
    with Scripted(reply) as server:
        said, done = complete(make(server.url, retry=Retry(tries=1)))
    assert (said, done.text, done.stop_reason, done.retries) == ("hello", "hello", "end_turn", 0)


@pytest.mark.parametrize(
    ("reply", "code", "context"),
    [
        (Reply(status=502, body=b"<html>bad gateway</html>"), "model_overloaded", {"status": 502}),
        (Reply(status=500, body=b"[1, 2"), "model_overloaded", {"status": 500, "kind": ""}),
        (Reply(status=529, body=b'"a text"'), "model_overloaded", {"status": 529}),
        (
            Reply(
                status=429,
                body=b'{"error": {"type": "rate_limit_error", "message": "slow"}}',
                headers=(("Retry-After", "7"),),
            ),
            "model_rate_limited",
            {"retry_after_s": 7.0, "kind": "rate_limit_error"},
        ),
        (
            Reply(status=400, body=b'{"error": {"message": "prompt is too long: 2 tokens > 1 maximum"}}'),
            "context_limit",
            {},
        ),
        (Reply(status=401, body=b'{"error": {"type": "authentication_error"}}'), "model_credentials", {}),
        (
            streamed(*OPENING, wire.error("overloaded_error", "no", request_id="r")),
            "model_overloaded",
            {"status": 200, "kind": "overloaded_error"},
        ),
        (streamed(*OPENING, wire.delta("x"), b"event: ping2\ndata: {\n\n"), "stream_malformed", {}),
        (streamed(*OPENING, wire.delta("x")), "stream_cut", {}),
        (streamed(b"<html>welcome</html>"), "stream_cut", {}),
    ],
    ids=lambda one: f"{one.status}-{one.body[-12:]!r}" if isinstance(one, Reply) else "",
)
def test_an_error_means_the_same_to_both(
    make: Make, reply: Reply, code: str, context: dict[str, Any]
) -> None:
    with Scripted(reply) as server:
        client = make(server.url, retry=Retry(tries=1))
        with client.stream(REQUEST) as stream, pytest.raises(SteplineError) as caught:
            list(stream)
    assert caught.value.reason == code
    assert {name: caught.value.context[name] for name in context} == context


def test_half_a_pair_in_the_request_is_refused_before_it_is_sent(
    server: ScriptedServer, make_any: Make
) -> None:
    request = ModelRequest(role="x", system=(), content=(Part(text="\ud800"),), max_tokens=9)
    with make_any(server.url).stream(request) as stream, pytest.raises(ModelRefused) as caught:
        list(stream)
    assert caught.value.reason == "unencodable_text"
    assert not server.requests


def test_a_proxy_of_the_environment_is_asked_with_its_login(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scripted(streamed(*OPENING, wire.delta("by proxy"), *CLOSING)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:word@"))
        monkeypatch.delenv("no_proxy", raising=False)
        assert complete(make("http://model.invalid"))[0] == "by proxy"
    path, headers, _ = proxy.asked[0]
    assert path == "http://model.invalid/v1/messages"
    assert headers["proxy-authorization"] == "Basic dXNlcjp3b3Jk"


def test_a_host_outside_the_proxy_is_asked_directly(
    server: ScriptedServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert complete(make(server.url))[0]


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A key and a certificate for this machine, which is its own authority, and is trusted."""
    path = write_certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@pytest.fixture
def secure(server: ScriptedServer, authority: Path) -> str:
    """The URL of the server over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return server.url.replace("http://127.0.0.1", "https://localhost")


def test_an_abort_wakes_a_reader_under_tls(server: ScriptedServer, secure: str, make: Make) -> None:
    server.faults.add({"kind": "slow_tokens", "token_delay_ms": 60_000})
    first = threading.Event()
    stream = make(secure).stream(REQUEST)

    def read() -> None:
        with stream:
            for _ in stream:
                first.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert first.wait(timeout=60)
    stream.abort()
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert stream.completion().aborted


def test_a_certificate_that_is_not_trusted_is_refused(
    server: ScriptedServer, secure: str, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with make(secure).stream(REQUEST) as stream, pytest.raises(ModelRefused) as caught:
        list(stream)
    assert caught.value.reason == "model_refused"
    assert not server.requests


HALVES = [
    ("one \ud83d\ude00", "one 😀"),
    ("three\ud83d\ude00 cut between two deltas", "three😀 cut between two deltas"),
    ("three\ud83d and no more", "three\ufffd and no more"),
    ("\ude00 first", "\ufffd first"),
    ("at the end\ud83d", "at the end\ufffd"),
]


@pytest.mark.parametrize(("sent", "text"), HALVES, ids=[text for _, text in HALVES])
def test_a_pair_of_surrogates_is_joined_and_half_of_one_replaced(
    server: ScriptedServer, make_any: Make, sent: str, text: str
) -> None:
    server.faults._faults.append(Fault(kind="fixture", text=sent))
    said, done = complete(make_any(server.url))
    assert said == done.text == text


@pytest.mark.parametrize("delta_chars", [10, 200_000])
def test_an_answer_that_does_not_end_is_ended_and_counts_as_cut(make: Make, delta_chars: int) -> None:
    events = [wire.delta("x" * delta_chars)] * (200_000 // delta_chars)
    with Scripted(streamed(*OPENING, *events, *CLOSING)) as server:
        said, done = complete(make(server.url), replace(REQUEST, max_tokens=100))
    assert said == done.text
    assert len(said) == ANSWER_MIN_CHARS
    assert (done.stop_reason, done.aborted, done.retries) == ("too_long", False, 0)
    assert done.usage.estimated
    assert len(server.asked) == 1


def test_the_limit_of_an_answer_grows_with_its_output_tokens(make: Make) -> None:
    text = "x" * (ANSWER_MIN_CHARS * 2)
    with Scripted(streamed(*OPENING, wire.delta(text), *CLOSING)) as server:
        said, done = complete(make(server.url), replace(REQUEST, max_tokens=ANSWER_MIN_CHARS))
    assert (said, done.stop_reason) == (text, "end_turn")
