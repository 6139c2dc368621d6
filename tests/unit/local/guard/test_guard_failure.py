"""The guard's limits for strangers: no plain request to a websocket, and no details of a failure."""

import json
from dataclasses import replace

import pytest
from botocore.auth import S3SigV4QueryAuth, SigV4Auth

from stepline.local.guard.gate import Gate
from tests.unit.local.guard.guarded_emulator import PAGE, RULES, WITH_PAGE, plain, serve
from tests.unit.local.guard.test_guard_gate import API, SOCKET, TARGET, Call, signed

SOCKETS = replace(WITH_PAGE, is_socket={"stepline"}.__contains__)
TRACE = b'{"errorType": "KeyError", "stackTrace": ["File \\"/opt/stepline/.venv/lib/x.py\\", line 5"]}'


class Failing:
    """An emulator that fails, with a reason."""

    def __init__(self, status: int, mime: str) -> None:
        self._status, self._mime = status, mime

    async def __call__(self, scope, receive, send):
        headers = [(b"Content-Type", self._mime.encode()), (b"content-length", b"%d" % len(TRACE))]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        for piece in (TRACE[:20], TRACE[20:]):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def answer(request, status, mime="application/json", rules=RULES):
    sent, _ = serve(request, make=lambda _: Gate(Failing(status, mime), rules))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "DELETE", "HEAD", "PATCH", "TRACE"])
@pytest.mark.parametrize("more", ["", "/", "/x", "/x/y?z", "/%40connections"])
def test_a_websockets_address_takes_no_plain_request(method, more):
    sent, heard = serve(plain(method, f"{SOCKET}{more}"), b"{}", rules=SOCKETS)
    assert (sent[0]["status"], heard) == (403, [])
    assert json.loads(sent[1]["body"])["code"] == "ForbiddenException"


def test_its_handshake_and_its_posts_by_the_owner_pass_and_so_do_other_apis():
    assert serve(plain("POST", API), b"{}", rules=SOCKETS)[1] == [(API, b"{}")]
    posted, _ = signed(Call(SigV4Auth, "execute-api", "POST", f"{SOCKET}/%40connections/Ab%3D", b"x", {}))
    assert serve(posted, b"x", rules=SOCKETS)[1]
    sent, heard = serve(plain("GET", SOCKET), b"{}", rules=SOCKETS, kind="websocket")
    assert heard
    assert sent[0]["type"] != "websocket.close"


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 599])
@pytest.mark.parametrize(
    "request_",
    [
        plain("POST", API),
        plain("GET", "/oauth2/authorize"),
        plain("POST", API, ("origin", PAGE)),
        None,
    ],
    ids=["api", "sign-in", "page", "signed address"],
)
@pytest.mark.parametrize("mime", ["application/json", "text/plain", "text/html", ""])
def test_a_failure_is_answered_to_a_stranger_without_a_word_about_it(request_, status, mime):
    signed_now = request_ or signed(Call(S3SigV4QueryAuth, "s3", "GET", "/b/a.txt"))[0]  # valid for an hour
    found = answer(signed_now, status, mime, WITH_PAGE)
    assert found == (status, b'{"message":"Internal Server Error"}')


@pytest.mark.parametrize("status", [200, 302, 400, 403, 404, 429])
def test_other_answers_pass_as_they_are(status):
    assert answer(plain("POST", API), status) == (status, TRACE)


def test_a_problem_of_the_api_keeps_its_words():
    assert answer(plain("GET", API), 503, "application/problem+json") == (503, TRACE)


def test_the_owner_reads_why_a_call_failed():
    request, _ = signed(Call(SigV4Auth, "dynamodb", "POST", "/", b"", TARGET))
    assert answer(request, 500) == (500, TRACE)
