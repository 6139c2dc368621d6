"""Forms that are posted to a bucket of S3 with a signed policy: parsing and verification.

The emulator checks what the policy asks for, such as key, type, size and time; here its signature is checked.
Source: https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-authentication-HTTPPOST.html.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Final

from stepline.local.guard.signature import ALGORITHM, IncompleteSignatureError, Request, Scope, sign

BUCKET: Final = re.compile(r"/([a-z0-9][a-z0-9-]{1,61}[a-z0-9])/?")
_MULTIPART: Final = re.compile(r"multipart/form-data; *boundary=([A-Za-z0-9'()+_,./:=?-]{1,70})")
_PART: Final = re.compile(
    rb'\r\ncontent-disposition: form-data; name="([^"\r\n]{1,128})"(?:; filename="[^"\r\n]*")?'
    rb"(?:\r\ncontent-type: [^\r\n]*)?\r\n\r\n",
    re.IGNORECASE,
)
FILE: Final = "file"


def bucket_of(request: Request) -> str | None:
    """Return the bucket that a form is posted to; None for another request, and where headers name a service."""
    found = BUCKET.fullmatch(request.path)
    is_form = request.method == "POST" and not request.query and _boundary(request) is not None
    is_call = any(name == "authorization" or name.startswith("x-amz-") for name, _ in request.headers)
    return found[1] if found and is_form and not is_call else None


def _boundary(request: Request) -> bytes | None:
    found = _MULTIPART.fullmatch("\n".join(request.values("content-type")))
    return f"--{found[1]}".encode() if found else None


def read_form(request: Request, body: bytes) -> dict[str, str]:
    """Return the fields by their names in small letters.

    Raises IncompleteSignatureError unless the last part is the file and no name occurs twice: a form that two readers
    could understand in two ways.
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
    """Return True if a key of the stage signed the form's policy, and the policy is one for this bucket.

    Raises IncompleteSignatureError.
    """
    policy, scope = fields.get("policy", ""), Scope.read(fields.get("x-amz-credential", ""))
    if fields.get("x-amz-algorithm") != ALGORITHM or scope.service != "s3" or not policy:
        raise IncompleteSignatureError
    secret, given = secret_of(scope.key_id), fields.get("x-amz-signature", "")
    if secret is None or not hmac.compare_digest(sign(secret, scope, policy).encode(), given.encode()):
        return False
    try:
        return {"bucket": bucket} in json.loads(b64decode(policy))["conditions"]
    except (ValueError, KeyError, TypeError) as error:
        raise IncompleteSignatureError from error
