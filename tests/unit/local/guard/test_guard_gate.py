"""The guard's decisions, over requests as clients of AWS really sign them and as strangers would send them."""

import hashlib
import http.client
import threading
from collections.abc import Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from stepline.local.guard.gate import make_gate
from stepline.local.guard.handler import refuse_pages
from stepline.local.guard.own_server import HEALTH, IDENTITY
from stepline.local.guard.request_filter import PAGES, Passage, consider
from stepline.local.guard.signature import ReceivedRequest
from tests.unit.local.guard.guarded_emulator import (
    HOME,
    HOST,
    KEY,
    PAGE,
    PORT,
    RULES,
    SECRET,
    WITH_PAGE,
    judge,
    plain,
    serve,
)

API = "/_aws/execute-api/stepline-http/$default/ticket"
SOCKET = "/_aws/execute-api/stepline/live"
TARGET = {"X-Amz-Target": "DynamoDB_20120810.Scan", "Content-Type": "application/x-amz-json-1.0"}
WRITE = {"Content-Type": "text/plain", "If-None-Match": "*"}


class Call(NamedTuple):
    auth: type
    service: str
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})


def signed(call, *, key=KEY, secret=SECRET, expires=()):
    """Return a request as botocore signs and sends it, with its body's digest."""
    made = AWSRequest(call.method, f"{HOME}{call.path}", headers=call.headers, data=call.body)
    call.auth(Credentials(key, secret), call.service, "us-east-1", *expires).add_auth(made)
    parts = urlsplit(made.prepare().url)
    sent = {name.lower(): value for name, value in made.headers.items()}
    pairs = (HOST, *((name, value) for name, value in sent.items() if name != "host"))
    request = ReceivedRequest(call.method, parts.path, parts.path, parts.query, pairs)
    return request, hashlib.sha256(call.body).hexdigest()


def presigned(method="GET", headers=(), **options):
    return signed(
        Call(S3SigV4QueryAuth, "s3", method, "/b/a%20file~%2B.txt", headers=dict(headers)), **options
    )[0]


SIGNED = [
    Call(SigV4Auth, "dynamodb", "POST", "/", b'{"TableName": "t"}', TARGET),
    Call(
        SigV4Auth,
        "lambda",
        "POST",
        "/2015-03-31/functions/arn%3Aaws%3Alambda%3Ax/invocations?Qualifier=live",
        b"{}",
        {},
    ),
    Call(SigV4Auth, "execute-api", "POST", f"{SOCKET}/%40connections/Ab%3D", b"x", {}),
    Call(
        SigV4Auth,
        "cloudformation",
        "POST",
        "/",
        b"Action=ListStacks",
        {"Content-Type": "application/x-www-form-urlencoded"},
    ),
    Call(SigV4Auth, "iam", "GET", "/a//b/./c/?x=1&a=b%20c&flag", b"", {"X-Amz-Meta-A": "  two   spaces "}),
    Call(S3SigV4Auth, "s3", "PUT", "/b/k//%C3%A9%20.txt?x-id=PutObject&list-type=2", b"body", {}),
]


@pytest.mark.parametrize("call", SIGNED, ids=lambda call: call.service)
def test_a_call_passes_with_the_stages_signature_and_with_no_other(call):
    request, payload = signed(call)
    assert judge(request, payload) is None
    assert judge(*signed(call, key="000000000000")) is None
    assert judge(*signed(call, secret="test")) == "SignatureDoesNotMatch"
    assert judge(*signed(call, key="test", secret="test")) == "InvalidClientTokenId"
    assert judge(*signed(call, key="test")) == "InvalidClientTokenId"
    assert judge(request, payload, later_s=1000) == "RequestExpired"
    assert judge(request, payload, later_s=-1000) == "RequestExpired"
    assert judge(replace(request, method="DELETE"), payload) == "SignatureDoesNotMatch"
    assert judge(replace(request, raw_path=request.raw_path + "x"), payload) == "SignatureDoesNotMatch"
    assert judge(replace(request, query=request.query + "&y=1"), payload) == "SignatureDoesNotMatch"


def test_the_body_is_part_of_the_signature():
    request, _ = signed(SIGNED[0])
    assert judge(request, hashlib.sha256(b"{}").hexdigest()) == "SignatureDoesNotMatch"


def test_a_signed_address_holds_for_its_object_its_headers_and_its_time():
    assert judge(presigned()) is None
    assert judge(presigned("PUT", WRITE)) is None
    assert judge(presigned(expires=(60,)), later_s=30) is None
    assert judge(presigned(expires=(60,)), later_s=90) == "RequestExpired"
    for changed in (
        replace(presigned(), method="PUT"),
        replace(presigned(), raw_path="/b/other"),
        replace(presigned(), query=presigned().query + "&versionId=1"),
        replace(presigned("PUT", WRITE), headers=(HOST, ("content-type", "text/plain"))),
        presigned(secret="test"),
    ):
        assert judge(changed) == "SignatureDoesNotMatch"


def test_no_holder_of_a_signed_address_asks_another_service():
    request = presigned()
    assert (
        judge(replace(request, headers=(*request.headers, ("x-amz-target", "DynamoDB_20120810.Scan"))))
        == "AccessDenied"
    )
    other, _ = signed(Call(SigV4QueryAuth, "sts", "GET", "/?Action=GetCallerIdentity"))
    assert judge(other) == "IncompleteSignature"
    bearer = replace(request, headers=(*request.headers, ("authorization", "Bearer x")))
    assert judge(bearer) == "IncompleteSignature"


@pytest.mark.parametrize(
    "host",
    [
        "evil.test:4566",
        "127.0.0.1.evil.test:4566",
        "localhost.:4566",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.1:4566",
        "b.s3.localhost:4566",
        "x.execute-api.127.0.0.1:4566",
        "x.lambda-url.us-east-1.localhost:4566",
        "0.0.0.0:4566",
        "",
    ],
)
def test_a_name_that_is_not_this_machines_own_is_refused(host):
    for request in (plain("GET", HEALTH), plain("POST", API), presigned(), signed(SIGNED[0])[0]):
        assert judge(replace(request, headers=(("host", host), *request.headers[1:]))) == "ForeignHost"


def test_a_request_has_one_host():
    assert judge(ReceivedRequest("GET", HEALTH, HEALTH, "", ())) == "ForeignHost"
    assert judge(plain("GET", HEALTH, ("host", "evil.test"))) == "ForeignHost"
    for own in ("127.0.0.1", "localhost", "LocalHost", "[::1]"):
        assert judge(plain("GET", HEALTH, host=("host", f"{own}:{PORT}"))) is None


@pytest.mark.parametrize("rules", [RULES, WITH_PAGE], ids=["no page", "one page"])
@pytest.mark.parametrize(
    "origin", ["http://evil.test", "null", "*", HOME, f"{PAGE}0", "http://localhost:5173", ""]
)
def test_a_foreign_page_reaches_nothing(rules, origin):
    for request in (
        plain("GET", HEALTH),
        plain("GET", SOCKET),
        plain("OPTIONS", API),
        plain("POST", API),
        presigned(),
    ):
        assert (
            judge(replace(request, headers=(*request.headers, ("origin", origin))), rules=rules)
            == "ForeignOrigin"
        )


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
def test_a_page_that_names_no_origin_is_one_still(site):
    for request in (plain("GET", API), presigned()):
        assert (
            judge(replace(request, headers=(*request.headers, ("sec-fetch-site", site)))) == "ForeignOrigin"
        )
        assert judge(replace(request, headers=(*request.headers, ("sec-fetch-site", "none")))) is None


LINK = (("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate"))


def followed(request, *headers):
    return replace(request, headers=(*request.headers, *(headers or LINK)))


def test_a_link_of_a_page_on_this_machine_leads_to_a_signed_address_and_nowhere_else():
    assert judge(followed(presigned())) is None
    assert judge(followed(presigned(secret="test"))) == "SignatureDoesNotMatch"
    for request in (
        plain("GET", HEALTH),
        plain("GET", API),
        plain("GET", "/_aws/cognito/authorize"),
        presigned("PUT", WRITE),
        signed(SIGNED[0])[0],
    ):
        assert judge(followed(request)) == "ForeignOrigin"
    for site, mode in (("cross-site", "navigate"), ("same-site", "no-cors"), ("same-site", "cors")):
        assert (
            judge(followed(presigned(), ("sec-fetch-site", site), ("sec-fetch-mode", mode)))
            == "ForeignOrigin"
        )


STARTED = {
    "MINISTACK_ACCOUNT_ID": "000000000000",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_ACCESS_KEY_ID": KEY,
    "GATEWAY_PORT": str(PORT),
}


def test_the_pages_are_those_that_the_emulator_was_started_with():
    rules = make_gate(lambda *_: None, {**STARTED, PAGES: f"{PAGE} http://127.0.0.1:1"})._rules
    assert rules.pages == {PAGE, "http://127.0.0.1:1"}
    assert make_gate(lambda *_: None, {**STARTED, PAGES: ""})._rules.pages == frozenset()


@pytest.mark.parametrize("identity", ["", "0f5c", "of another stage"])
def test_the_health_of_the_emulator_is_the_identity_it_was_started_with(identity):
    sent, heard = serve(
        plain("GET", HEALTH), make=lambda app: make_gate(app, {**STARTED, IDENTITY: identity})
    )
    assert (sent[0]["status"], sent[1]["body"]) == (200, identity.encode())
    assert heard == []


def test_a_page_of_the_stage_reaches_keyless_routes_only():
    def from_page(request):
        return replace(request, headers=(*request.headers, ("origin", PAGE), ("sec-fetch-site", "same-site")))

    for request in (plain("POST", API), plain("GET", SOCKET), plain("POST", "/oauth2/token"), presigned()):
        assert judge(from_page(request), rules=WITH_PAGE) is None
    assert consider(from_page(plain("OPTIONS", "/x")), WITH_PAGE) is Passage.PREFLIGHT
    request, payload = signed(SIGNED[0])
    assert judge(from_page(request), payload, rules=WITH_PAGE) == "ForeignOrigin"
    assert judge(from_page(plain("POST", "/")), rules=WITH_PAGE) == "MissingAuthenticationToken"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/_ministack/reset"),
        ("POST", "/_ministack/config"),
        ("GET", "/_ministack/health"),
        ("GET", "/health"),
        ("GET", "/_ministack/lambda-code/x"),
        ("PUT", "/_ministack/cfn-response/x"),
        ("GET", "/v2/credentials/x"),
        ("PUT", "/latest/api/token"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/2015-03-31/functions/f/invocations"),
        ("POST", "/"),
        ("OPTIONS", "/"),
        ("GET", "/bucket/key"),
        ("GET", "/login"),
        ("POST", "/oauth2/authorize"),
        ("GET", "/bucket/.well-known/jwks.json"),
        ("POST", f"{SOCKET}/@connections/x"),
        ("POST", "/_aws/execute-api/stepline/@connections/x"),
        ("POST", "/_aws/execute-api/stepline"),
        ("POST", "/_aws/execute-api//live/x"),
        ("POST", f"/x/..{API}"),
        ("GET", f"http://evil.test{API}"),
        ("POST", "/restapis/x/live/_user_request_/y"),
        ("GET", f"{HEALTH}/"),
        ("POST", HEALTH),
    ],
)
def test_the_emulators_own_routes_need_the_key(method, path):
    assert judge(plain(method, path)) == "MissingAuthenticationToken"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", API),
        ("OPTIONS", API),
        ("GET", SOCKET),
        ("GET", "/us-east-1_Ab9/.well-known/jwks.json"),
        ("GET", "/oauth2/authorize"),
        ("GET", HEALTH),
    ],
)
def test_routes_with_their_own_checks_need_no_key(method, path):
    assert judge(plain(method, path, ("authorization", "Bearer x.y.z"))) is None


@pytest.mark.parametrize("path", [API, SOCKET, "/oauth2/token"])
def test_an_open_path_with_the_headers_of_a_call_is_a_call(path):
    assert (
        judge(plain("POST", path, ("x-amz-target", "DynamoDB_20120810.Scan"))) == "MissingAuthenticationToken"
    )
    assert (
        judge(plain("POST", path, ("authorization", "AWS4-HMAC-SHA256 Credential=test/x")))
        == "IncompleteSignature"
    )


WHOLE = f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature={'0' * 64}"


@pytest.mark.parametrize(
    "authorization",
    [
        "AWS test:x",
        "aws4-hmac-sha256 x",
        "AWS4-ECDSA-P256-SHA256 x",
        WHOLE + ",",
        WHOLE.replace("host", "date"),
        WHOLE.replace("20260101", "2026"),
        WHOLE.replace("/s3/", "/"),
        WHOLE.replace("0" * 64, "é" * 64),
    ],
)
def test_an_incomplete_signature_is_refused(authorization):
    dated = ("x-amz-date", "20260101T000000Z")
    assert judge(plain("GET", "/b/k", ("authorization", authorization), dated)) == "IncompleteSignature"
    assert judge(plain("GET", "/b/k", ("authorization", WHOLE), dated)) == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    "query",
    [
        "AWSAccessKeyId=test&Signature=x&Expires=9999999999",
        "x-amz-credential=test",
        "X-Amz-Signature=",
        "X-Amz-Algorithm=x",
    ],
)
def test_a_half_signed_address_is_refused(query):
    assert judge(plain("GET", "/b/k", query=query)) == "IncompleteSignature"
    assert judge(plain("GET", API, query=query)) == "IncompleteSignature"
    whole = presigned()
    assert judge(replace(whole, query=f"{whole.query}&{query}")) == "IncompleteSignature"


def test_a_body_that_was_read_for_its_signature_reaches_the_emulator():
    request, _ = signed(SIGNED[0])
    body = SIGNED[0].body
    (start, _), heard = serve(request, body[:3], body[3:])
    assert (start["status"], heard) == (200, [("/", body)])
    assert serve(request, body[:3], b"other")[1] == []


def test_an_answer_is_shared_with_the_page_that_asked_and_with_no_other():
    (start, _), heard = serve(plain("POST", API, ("origin", PAGE)), rules=WITH_PAGE)
    assert heard
    shared = (b"access-control-allow-origin", PAGE.encode())
    assert start["headers"] == [(b"x-kept", b"1"), shared, (b"vary", b"Origin")]
    (start, _), _ = serve(plain("POST", API), rules=WITH_PAGE)
    assert start["headers"] == [(b"x-kept", b"1")]


def test_a_preflight_is_answered_by_the_guard_alone():
    asked = (("access-control-request-method", "PUT"), ("access-control-request-headers", "if-none-match"))
    (start, _), heard = serve(plain("OPTIONS", "/b/k", ("origin", PAGE), *asked), rules=WITH_PAGE)
    said = dict(start["headers"])
    assert heard == []
    assert said[b"access-control-allow-origin"] == PAGE.encode()
    assert said[b"access-control-allow-methods"] == b"PUT"
    assert said[b"access-control-allow-headers"] == b"if-none-match"


def test_a_refused_handshake_never_reaches_the_emulator():
    sent, heard = serve(plain("GET", SOCKET, ("origin", "http://evil.test")), kind="websocket")
    assert (sent, heard) == ([{"type": "websocket.close", "code": 1008}], [])


def test_only_a_container_at_its_own_address_gets_the_key():
    path = "/v2/credentials/6f1c2a54-0000-4000-8000-000000000000"
    asked = plain("GET", path, ("authorization", "its word"))
    known = {asked: b"the key"}
    (start, said), heard = serve(asked, lend=known.get)
    assert (start["status"], said["body"], heard) == (200, b"the key", [])
    for other in (
        plain("GET", path),
        plain("GET", path, ("authorization", "a word")),
        plain("POST", path, ("authorization", "its word")),
        plain("GET", f"{path}/x", ("authorization", "its word")),
    ):
        (start, _), heard = serve(other, lend=known.get)
        assert (start["status"], heard) == (403, [])


def test_a_refusal_is_readable_for_the_client_that_gets_it():
    (start, said), _ = serve(plain("POST", "/", ("content-type", "application/x-www-form-urlencoded")))
    assert (start["status"], b"<Code>MissingAuthenticationToken</Code>" in said["body"]) == (403, True)
    (start, said), _ = serve(plain("POST", "/", ("content-type", "application/x-amz-json-1.0")))
    assert (start["status"], b'"code": "MissingAuthenticationToken"' in said["body"]) == (403, True)


@pytest.mark.parametrize(
    ("named", "status"),
    [
        ({}, 200),
        ({"Host": "evil.test"}, 403),
        ({"Host": "evil.test:{port}"}, 403),
        ({"Origin": "http://evil.test"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_server_of_the_emulator_refuses_pages_and_foreign_names(named, status):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    refuse_pages(Handler)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        try:
            headers = {name: value.format(port=server.server_address[1]) for name, value in named.items()}
            connection.request("POST", "/2018-06-01/runtime/invocation/x/response", b"{}", headers)
            assert connection.getresponse().status == status
        finally:
            connection.close()
            server.shutdown()
            thread.join()
