"""Signatures of AWS calls (SigV4), in the header or in the URL: parsing and verification.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SKEW_S: Final = 900
PRESIGNED_MAX_S: Final = 604_800
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_AUTHORIZATION = re.compile(
    ALGORITHM
    + r" +Credential=([^ ,]{1,256}), *SignedHeaders=([a-z0-9;_-]{1,4096}), *Signature=([0-9a-f]{64})"
)
_SCOPE = re.compile(r"([A-Za-z0-9_]{1,128})/([0-9]{8})/([a-z0-9-]{1,64})/([a-z0-9-]{1,64})/aws4_request")
_SECONDS = re.compile("[0-9]{1,6}")
_DATE = "%Y%m%dT%H%M%SZ"
_QUERY: Final = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders")
_VALUE: Final = "X-Amz-Signature"
_CLAIMS: Final = frozenset({"x-amz-algorithm", "x-amz-credential", "x-amz-signature", "awsaccesskeyid"})
"""Query fields, in lower case, that the emulator may read as credentials."""


class IncompleteSignatureError(ValueError):
    """A malformed or incomplete signature."""


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request. `path` is decoded, `raw_path` and `query` are not; header names are in lower case."""

    method: str
    path: str
    raw_path: str
    query: str
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """Return all values of a header."""
        return [value for found, value in self.headers if found == name]


@dataclass(frozen=True)
class CredentialScope:
    """The credential in a signature: the key, and the day, region and service that it signs for."""

    key_id: str
    day: str
    region: str
    service: str

    @classmethod
    def read(cls, text: str) -> CredentialScope:
        """Parse `<key id>/<yyyymmdd>/<region>/<service>/aws4_request`. Raises IncompleteSignatureError."""
        found = _SCOPE.fullmatch(text)
        if found is None:
            raise IncompleteSignatureError
        return cls(*found.groups())

    def __str__(self) -> str:
        """Return the scope as it is signed, without the key."""
        return f"{self.day}/{self.region}/{self.service}/aws4_request"


@dataclass(frozen=True)
class Signature:
    """The signature fields of a request. `payload` is the declared digest of the body, or empty."""

    scope: CredentialScope
    headers: tuple[str, ...]
    value: str
    made_at: str
    lifetime_s: int
    payload: str
    presigned: bool


def read_signature(request: ReceivedRequest) -> Signature | None:
    """Return the request's signature, None if it has none. Raises IncompleteSignatureError."""
    authorizations = request.values("authorization")
    in_header = any(value.upper().startswith("AWS") for value in authorizations)
    fields = parse_qsl(request.query, keep_blank_values=True)
    in_query = any(name.lower() in _CLAIMS for name, _ in fields)
    if not in_header and not in_query:
        return None
    if in_header and in_query:
        raise IncompleteSignatureError
    if in_query:
        return _read_query(fields, authorizations)
    if len(authorizations) != 1:
        raise IncompleteSignatureError
    return _read_header(request, authorizations[0])


def _read_header(request: ReceivedRequest, authorization: str) -> Signature:
    found = _AUTHORIZATION.fullmatch(authorization)
    dates, payloads = request.values("x-amz-date"), request.values("x-amz-content-sha256")
    if found is None or len(dates) != 1 or len(payloads) > 1:
        raise IncompleteSignatureError
    return _make(
        *found.groups(), made_at=dates[0], lifetime_s=SKEW_S, payload="".join(payloads), presigned=False
    )


def _read_query(fields: list[tuple[str, str]], authorizations: list[str]) -> Signature:
    counts = Counter(name.lower() for name, _ in fields)
    said = dict(fields)
    wanted = (*_QUERY, _VALUE)
    is_whole = all(counts[name.lower()] == 1 and name in said for name in wanted)
    if authorizations or counts["awsaccesskeyid"] or not is_whole:
        raise IncompleteSignatureError
    algorithm, credential, made_at, expires, headers = (said[name] for name in _QUERY)
    if algorithm != ALGORITHM or not _SECONDS.fullmatch(expires) or int(expires) > PRESIGNED_MAX_S:
        raise IncompleteSignatureError
    return _make(
        *(credential, headers, said[_VALUE]),
        made_at=made_at,
        lifetime_s=int(expires),
        payload=said.get("X-Amz-Content-Sha256", UNSIGNED),
        presigned=True,
    )


def _make(
    credential: str, headers: str, value: str, *, made_at: str, lifetime_s: int, payload: str, presigned: bool
) -> Signature:
    scope = CredentialScope.read(credential)
    names = tuple(headers.split(";"))
    if not made_at.startswith(scope.day) or "host" not in names:
        raise IncompleteSignatureError
    try:
        datetime.strptime(made_at, _DATE).replace(tzinfo=UTC)
    except ValueError as error:
        raise IncompleteSignatureError from error
    return Signature(
        scope=scope,
        headers=names,
        value=value,
        made_at=made_at,
        lifetime_s=lifetime_s,
        payload=payload,
        presigned=presigned,
    )


def is_current(signature: Signature, now_s: float) -> bool:
    """Return True if the signature is neither expired nor from the future."""
    made_s = datetime.strptime(signature.made_at, _DATE).replace(tzinfo=UTC).timestamp()
    return made_s - SKEW_S <= now_s <= made_s + signature.lifetime_s


def is_genuine(signature: Signature, request: ReceivedRequest, secret: str, payload: str) -> bool:
    """Return True if `secret` signed this request with a body of this digest."""
    canonical = "\n".join(
        [
            request.method,
            _canonical_path(signature, request.raw_path),
            _canonical_query(request.query),
            *(f"{name}:{_canonical_value(request.values(name))}" for name in signature.headers),
            "",
            ";".join(signature.headers),
            payload,
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"{ALGORITHM}\n{signature.made_at}\n{signature.scope}\n{digest}"
    made = sign(secret, signature.scope, text)
    return hmac.compare_digest(made.encode(), signature.value.encode())


def sign(secret: str, scope: CredentialScope, text: str) -> str:
    """Return the signature of a text, in hex."""
    key = f"AWS4{secret}".encode()
    for part in str(scope).split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _canonical_path(signature: Signature, raw_path: str) -> str:
    """Return the canonical path: for S3 as sent, for other services normalised and quoted once more."""
    if signature.scope.service == "s3":
        return raw_path
    parts: list[str] = []
    for part in raw_path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    end = "/" if parts and raw_path.endswith("/") else ""
    return quote("/" + "/".join(parts) + end, safe="/~")


def _canonical_query(query: str) -> str:
    pairs = [field.partition("=")[::2] for field in query.split("&") if field]
    kept = [(_quoted(name), _quoted(value)) for name, value in pairs if name != _VALUE]
    return "&".join(f"{name}={value}" for name, value in sorted(kept))


def _quoted(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


def _canonical_value(values: list[str]) -> str:
    return ",".join(" ".join(value.split()) for value in values)
