"""Tokens that expire while a connection is open, and the API that gives tickets for fresh ones."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import jwt
import msgspec
import pytest

from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import AuthError, DependencyError
from stepline.local.client.change import Acknowledged
from stepline.local.client.credential import Credential, fetch_ticket, read_expiry
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import dial_gateway
from stepline.model.wire.event import AckFrame, AuthFrame, ErrorFrame, SyncFrame
from tests.unit.local.client.gateway import running_gateway
from tests.unit.local.client.test_session import QUICK, C, first

SECRET = "a secret of thirty-two letters, or so"


class Api:
    """Answers every POST with `status` and `body`; keeps the requests."""

    def __init__(self):
        self.status, self.body = 201, b'{"ticket": "t-1", "expires_in_s": 60, "url": ""}'
        self.asked = []


@pytest.fixture
def api():
    found = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            found.asked.append((self.path, self.headers["Authorization"]))
            self.send_response(found.status)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, *args):
            """Keep the test's output clean."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def token(clock, ttl_s, **claims):
    return jwt.encode({"exp": int(clock.now().timestamp()) + ttl_s, **claims}, SECRET, algorithm="HS256")


def test_a_ticket_is_requested_with_the_token_in_a_header(api):
    assert fetch_ticket(f"{api.url}/", "secret") == "t-1"
    assert api.asked == [("/v1/socket-tickets", "Bearer secret")]


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_the_api_does_not_take_is_an_authorization_error(api, status):
    api.status = status
    with pytest.raises(AuthError):
        fetch_ticket(api.url, "t")


@pytest.mark.parametrize(
    ("status", "body"), [(500, b"{}"), (404, b"{}"), (201, b"<html>"), (201, b"{}"), (201, b"[]")]
)
def test_an_api_that_answers_nonsense_is_unreachable(api, status, body):
    api.status, api.body = status, body
    with pytest.raises(DependencyError) as error:
        fetch_ticket(api.url, "t")
    assert error.value.reason == "api_unreachable"


def test_a_missing_api_is_unreachable():
    with pytest.raises(DependencyError) as error:
        fetch_ticket("http://127.0.0.1:9", "t")
    assert error.value.reason == "api_unreachable"


@pytest.mark.parametrize("text", ["opaque", "", "a.b.c", jwt.encode({"sub": "ada"}, SECRET)])
def test_a_token_that_does_not_say_when_it_expires_is_left_to_the_server(text):
    assert read_expiry(text) == float("inf")


@contextmanager
def renewing(api_url, clock, ttl_s, script):
    """Yield a gateway with this script, a session on it with tokens of this lifetime, and the tokens it used."""
    used = []

    def fresh():
        used.append(token(clock, ttl_s, n=len(used)))
        return used[-1]

    credential = Credential(fresh, api_url)
    with running_gateway() as gateway:
        gateway.script = script
        dial = dial_gateway(gateway.url, credential.token)
        pace = msgspec.structs.replace(QUICK, ping_every_s=10_000.0, idle_ping_every_s=10_000.0)
        with Session(dial, ClientState(conversation=C), clock, pace, credential=credential) as session:
            yield gateway, session, used


def test_a_connection_is_renewed_before_its_token_expires_and_again_before_the_next_one_does(api):
    clock = MemoryClock()

    def script(request):
        if request["action"] == "auth":
            return [AuthFrame(expires_at=int(clock.now().timestamp()) + 1000)]
        return [AckFrame(message_id=request["message_id"], conversation=C, n=0, kind="prompt")]

    with renewing(api.url, clock, 1000, script) as (gateway, session, used):
        effects = session.effects()
        for pause_s, wanted in (
            (799, ["send"]),
            (1, ["auth", "send"]),
            (799, ["send"]),
            (1, ["auth", "send"]),
        ):
            clock.pause(pause_s)
            session.say("hi")
            first(effects, Acknowledged)
            heard = sorted(gateway.heard()["action"] for _ in wanted)
            assert heard == wanted
        assert len(gateway.headers) == 1
        assert [f"Bearer {text}" for text in used[1:]] == [said for _, said in api.asked]


def test_without_an_api_a_connection_is_replaced_on_request_without_loss():
    clock = MemoryClock()
    sends = iter([None, ErrorFrame(code="auth_expired", message="", message_id="m2"), None])

    def script(request):
        if request["action"] == "resume":
            return [SyncFrame(conversation=C, n=request["after"])]
        ack = AckFrame(message_id=request["message_id"], conversation=C, n=0, kind="prompt")
        return [next(sends) or ack]

    with renewing("", clock, 1000, script) as (gateway, session, used):
        effects = session.effects()
        for message_id in ("m1", "m2"):
            session.say("hi", message_id=message_id)
            assert first(effects, Acknowledged).frame.message_id == message_id
            clock.pause(2000)
        assert [headers["Authorization"] for headers in gateway.headers] == [f"Bearer {t}" for t in used]
        assert [gateway.heard()["action"] for _ in range(4)] == ["send", "send", "resume", "send"]


def test_an_api_that_fails_does_not_disturb_the_connection(api):
    clock = MemoryClock()
    api.status = 500

    def script(request):
        return [AckFrame(message_id=request["message_id"], conversation=C, n=0, kind="prompt")]

    with renewing(api.url, clock, 100, script) as (gateway, session, _):
        clock.pause(90)
        session.say("hi")
        first(session.effects(), Acknowledged)
        assert gateway.heard()["action"] == "send"
    assert len(api.asked) == 1


def test_a_renewal_that_fails_for_now_is_retried_without_an_effect(api):
    clock = MemoryClock()
    answers = iter(
        [ErrorFrame(code="dependency", message="later", retryable=True), AuthFrame(expires_at=4_000_000_000)]
    )

    def script(request):
        if request["action"] == "auth":
            return [next(answers)]
        return [AckFrame(message_id=request["message_id"], conversation=C, n=0, kind="prompt")]

    with renewing(api.url, clock, 1000, script) as (gateway, session, _):
        effects = session.effects()
        shown = []
        for pause_s in (800, 20, 800):
            clock.pause(pause_s)
            session.say("hi")
            shown.append(next(effects))
        assert [type(effect) for effect in shown] == [Acknowledged] * 3
        assert sorted(gateway.heard()["action"] for _ in range(5)) == ["auth"] * 2 + ["send"] * 3
    assert len(gateway.headers) == 1


def test_a_ticket_that_is_refused_leads_to_a_fresh_connection(api):
    clock = MemoryClock()

    def script(request):
        if request["action"] == "auth":
            return [ErrorFrame(code="unauthorized", message="the ticket is not valid")]
        if request["action"] == "resume":
            return [SyncFrame(conversation=C, n=request["after"])]
        return [AckFrame(message_id=request["message_id"], conversation=C, n=0, kind="prompt")]

    with renewing(api.url, clock, 1000, script) as (gateway, session, _):
        effects = session.effects()
        session.say("one")
        first(effects, Acknowledged)
        clock.pause(800)
        session.say("two")
        first(effects, Acknowledged)
        session.say("three")
        first(effects, Acknowledged)
    assert len(gateway.headers) == 2
