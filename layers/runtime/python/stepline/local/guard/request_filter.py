"""The rules for requests to the emulator, decided from the request alone, without I/O.

    host            one of this machine's own names, with the port: no name that a foreign server resolves
    origin          none, or a page of the stage, and then only on routes that need no key; a link that is followed from a
                    page on this machine leads to a presigned URL only
    key             each call is signed with the stage's key, or with that of a session the emulator issued; a form
                    that is posted to a bucket has a signed policy
    open routes     deployed APIs and sign-in, which check for themselves; presigned URLs are for S3 only
    tasks           a container gets the key at the address the emulator gave it; no other caller does

Open routes are exact methods and paths, without the headers by which the emulator would choose another service. The
emulator checks the conditions of a form's policy, such as key, type, size and time; the guard checks its signature.
Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-authentication-HTTPPOST.html.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from stepline.local.guard.own_server import HEALTH
from stepline.local.guard.signature import (
    ALGORITHM,
    CredentialScope,
    IncompleteSignatureError,
    ReceivedRequest,
    Signature,
    is_current,
    is_genuine,
    read_signature,
    sign,
)

BUCKET: Final = re.compile(r"/([a-z0-9][a-z0-9-]{1,61}[a-z0-9])/?")
_MULTIPART: Final = re.compile(r"multipart/form-data; *boundary=([A-Za-z0-9'()+_,./:=?-]{1,70})")
_PART: Final = re.compile(
    rb'\r\ncontent-disposition: form-data; name="([^"\r\n]{1,128})"(?:; filename="[^"\r\n]*")?'
    rb"(?:\r\ncontent-type: [^\r\n]*)?\r\n\r\n",
    re.IGNORECASE,
)
FILE: Final = "file"


def bucket_of(request: ReceivedRequest) -> str | None:
    """Return the bucket that a form is posted to; None for another request, and where headers name a service."""
    found = BUCKET.fullmatch(request.path)
    is_form = request.method == "POST" and not request.query and _boundary(request) is not None
    is_call = any(name == "authorization" or name.startswith("x-amz-") for name, _ in request.headers)
    return found[1] if found and is_form and not is_call else None


def _boundary(request: ReceivedRequest) -> bytes | None:
    found = _MULTIPART.fullmatch("\n".join(request.values("content-type")))
    return f"--{found[1]}".encode() if found else None


def read_form(request: ReceivedRequest, body: bytes) -> dict[str, str]:
    """Return the fields by their lower-case names.

    Raises IncompleteSignatureError unless the last part is the file and no name occurs twice: two readers could
    interpret the form differently.
    """
    boundary = _boundary(request)
    if boundary is None:
        raise IncompleteSignatureError
    parts = body.split(boundary)
    fields: dict[str, str] = {}
    for part in parts[1:-1]:
        head = _PART.match(part)
        name = head[1].decode("latin-1").lower() if head else FILE
        if head is None or name in fields or FILE in fields:
            raise IncompleteSignatureError
        value = part[head.end() :].removesuffix(b"\r\n")
        fields[name] = "" if name == FILE else value.decode("latin-1")
    if FILE not in fields or parts[0] or parts[-1].strip() != b"--":
        raise IncompleteSignatureError
    return fields


def is_genuine_form(
    fields: Mapping[str, str], bucket: str | None, secret_of: Callable[[str], str | None]
) -> bool:
    """Return True if a key of the stage signed the form's policy, and the policy is for this bucket.

    Raises IncompleteSignatureError.
    """
    policy, scope = fields.get("policy", ""), CredentialScope.read(fields.get("x-amz-credential", ""))
    if fields.get("x-amz-algorithm") != ALGORITHM or scope.service != "s3" or not policy:
        raise IncompleteSignatureError
    secret, given = secret_of(scope.key_id), fields.get("x-amz-signature", "")
    if secret is None or not hmac.compare_digest(sign(secret, scope, policy).encode(), given.encode()):
        return False
    try:
        return {"bucket": bucket} in json.loads(b64decode(policy))["conditions"]
    except (ValueError, KeyError, TypeError) as error:
        raise IncompleteSignatureError from error


NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
CONNECTIONS: Final = "@connections"
PAGES: Final = "GUARD_PAGES"
"""The variable of the emulator with the origins of its pages, separated by blanks."""

_API = re.compile(r"/_aws/execute-api/([A-Za-z0-9-]{1,64})/[^/]+(?:/.*)?", re.DOTALL)
_POOL_FILE = re.compile(
    r"/[a-z0-9-]{1,32}_[A-Za-z0-9]{1,64}/\.well-known/(?:jwks\.json|openid-configuration)"
)
_CONTAINER = re.compile(r"/v2/credentials/[0-9a-f-]{36}")
_SIGN_IN: Final = frozenset(
    {
        ("GET", "/oauth2/authorize"),
        ("POST", "/oauth2/token"),
        ("GET", "/oauth2/userInfo"),
        ("POST", "/oauth2/userInfo"),
        ("POST", "/oauth2/login"),
        ("POST", "/login"),
        ("GET", "/logout"),
    }
)
_HANDLING: Final = "sign with the key in .stepline/access_key.json"


@dataclass(frozen=True)
class Rules:
    """The served port, the allowed pages, and two functions.

    `secret_of` returns a key's secret, None if unknown; `is_socket` returns whether the id of a deployed API is a
    websocket API's.
    """

    port: int
    secret_of: Callable[[str], str | None]
    pages: frozenset[str] = frozenset()
    is_socket: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True)
class RequestRefusal:
    """The reason for refusing a request: AWS's error code if it has one, and a sentence."""

    code: str
    message: str


FOREIGN: Final = RequestRefusal("ForeignOrigin", "not for web pages")
NO_HANDSHAKE: Final = RequestRefusal("ForbiddenException", "only websockets are opened here")
NO_KEY: Final = RequestRefusal("MissingAuthenticationToken", f"no key: {_HANDLING}")


class Passage(Enum):
    """The handling of a request without its own signature."""

    HEALTH = "the guard returns its identity, so an emulator without it never counts as started"
    PREFLIGHT = "answered with the CORS headers for a page of the stage"
    TASK = "the guard returns the key to the container of a running task"
    FORM = "the emulator gets it, if the policy of the form is signed"
    OPEN = "the emulator gets it"


def consider(request: ReceivedRequest, rules: Rules) -> RequestRefusal | Signature | Passage:
    """Return a refusal, a signature to be checked against the body, or the handling of an unsigned request."""
    if refusal := _consider_origin(request, rules):
        return refusal
    if request.values("origin") and request.method == "OPTIONS":
        return Passage.PREFLIGHT
    try:
        signature = read_signature(request)
    except IncompleteSignatureError:
        return RequestRefusal("IncompleteSignature", "the request's signature is incomplete")
    if _is_followed(request) and not (signature and is_shared(signature)):
        return FOREIGN
    if signature is None:
        return _consider_open(request)
    return _consider_signed(signature, request, rules) or signature


def _consider_signed(signature: Signature, request: ReceivedRequest, rules: Rules) -> RequestRefusal | None:
    if request.values("origin") and not is_shared(signature):
        return RequestRefusal("ForeignOrigin", "a web page has no key")
    if signature.presigned and not is_shared(signature):
        return RequestRefusal("IncompleteSignature", "signed addresses are for S3 only")
    if signature.presigned and _has_unsigned(request, signature):
        return RequestRefusal("AccessDenied", "an AWS header is not signed")
    if rules.secret_of(signature.scope.key_id) is None:
        return RequestRefusal("InvalidClientTokenId", f"this is not the stage's key: {_HANDLING}")
    return None


def is_own_name(hosts: Sequence[str], port: int) -> bool:
    """Return True if there is exactly one `Host`, and it is a name that only this machine resolves to itself."""
    return len(hosts) == 1 and hosts[0].lower() in {f"{name}:{port}" for name in NAMES}


def _consider_origin(request: ReceivedRequest, rules: Rules) -> RequestRefusal | None:
    if not is_own_name(request.values("host"), rules.port):
        return RequestRefusal("ForeignHost", f"ask for 127.0.0.1:{rules.port}")
    origins = request.values("origin")
    if origins and (len(origins) > 1 or origins[0] not in rules.pages):
        return RequestRefusal("ForeignOrigin", "not for this web page")
    is_own = all(site == "none" for site in request.values("sec-fetch-site"))
    if not origins and not is_own and not _is_followed(request):
        return FOREIGN
    return None


def _is_followed(request: ReceivedRequest) -> bool:
    """Return True if the browser follows a link of a page on this machine, to show or save its target."""
    fetch = {name: request.values(f"sec-fetch-{name}") for name in ("site", "mode")}
    followed = {"site": ["same-site"], "mode": ["navigate"]}
    return request.method == "GET" and not request.values("origin") and fetch == followed


def _consider_open(request: ReceivedRequest) -> RequestRefusal | Passage:
    if (request.method, request.path) == ("GET", HEALTH):
        return Passage.HEALTH
    if request.method == "GET" and _CONTAINER.fullmatch(request.path) and not request.values("origin"):
        return Passage.TASK
    if is_open(request):
        return Passage.OPEN
    return Passage.FORM if bucket_of(request) else NO_KEY


def check_signature(
    signature: Signature, request: ReceivedRequest, rules: Rules, *, payload: str, now_s: float
) -> RequestRefusal | None:
    """Return the refusal of an invalid signature, else None. `payload` is the body's digest in hex."""
    secret = rules.secret_of(signature.scope.key_id)
    if secret is None or not is_genuine(signature, request, secret, payload):
        return RequestRefusal("SignatureDoesNotMatch", f"the signature does not match: {_HANDLING}")
    if not is_current(signature, now_s):
        return RequestRefusal("RequestExpired", "the signature has expired, or is not valid yet")
    return None


def check_form(request: ReceivedRequest, rules: Rules, *, body: bytes) -> RequestRefusal | None:
    """Return the refusal of a posted form whose policy is not signed by a key of the stage, else None."""
    try:
        if is_genuine_form(read_form(request, body), bucket_of(request), rules.secret_of):
            return None
    except IncompleteSignatureError:
        return RequestRefusal(
            "IncompleteSignature", "the form has no complete signature before its only file"
        )
    return RequestRefusal("SignatureDoesNotMatch", "the form's policy is not signed for this bucket")


def is_for_sockets(request: ReceivedRequest, rules: Rules) -> bool:
    """Return True if the address is a websocket API's, which accepts handshakes only."""
    found = _API.fullmatch(request.path)
    return found is not None and rules.is_socket(found[1])


def is_open(request: ReceivedRequest) -> bool:
    """Return True if a request without a key is for a deployed API or sign-in only."""
    if any(name.startswith("x-amz-") for name, _ in request.headers):
        return False
    if (request.method, request.path) in _SIGN_IN:
        return True
    if request.method == "GET" and _POOL_FILE.fullmatch(request.path):
        return True
    return bool(_API.fullmatch(request.path)) and CONNECTIONS not in request.path.split("/")


def is_shared(signature: Signature) -> bool:
    """Return True if the signature belongs to a presigned S3 URL, which may be shared."""
    return signature.presigned and signature.scope.service == "s3"


def _has_unsigned(request: ReceivedRequest, signature: Signature) -> bool:
    """Return True if an unsigned AWS header could change the meaning of a presigned URL."""
    return any(name.startswith("x-amz-") and name not in signature.headers for name, _ in request.headers)
