"""Forms that are posted to a bucket, with policies signed by an AWS client and sent by a browser."""

import base64
from dataclasses import replace
from functools import cache

import botocore.session
import pytest
import requests
from botocore.config import Config

from stepline.local.guard.request_filter import Passage, check_form, consider
from stepline.local.guard.signature import CredentialScope, sign
from tests.unit.local.guard.guarded_emulator import (
    HOME,
    HOST,
    KEY,
    PAGE,
    RULES,
    SECRET,
    WITH_PAGE,
    judge,
    plain,
    serve,
)


@cache
def client(key, secret):
    """Return an AWS client: creating one costs more than all of its uses."""
    named = {
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "endpoint_url": HOME,
        "config": Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    }
    return botocore.session.get_session().create_client("s3", "us-east-1", **named)


def form(*, key=KEY, secret=SECRET, bucket="b-1", fields=(), file=b"the file"):
    """Return a form with a policy, as an AWS client makes it and a browser sends it; and its body."""
    grant = client(key, secret).generate_presigned_post(bucket, "quarantine/x", ExpiresIn=60)
    sent = {**grant["fields"], **dict(fields)}
    posted = requests.Request("POST", grant["url"], data=sent, files={"file": ("a.txt", file)}).prepare()
    return plain("POST", f"/{bucket}", ("content-type", posted.headers["Content-Type"])), posted.body


def posted(request, body, *, rules=RULES):
    """Return the code of a form's refusal, or None."""
    assert consider(request, rules) is Passage.FORM
    found = check_form(request, rules, body=body)
    return found.code if found else None


def test_a_form_passes_if_the_stages_key_signed_its_policy_for_this_bucket():
    request, body = form()
    assert posted(request, body) is None
    assert posted(replace(request, path="/b-1/"), body) is None
    assert (
        posted(replace(request, headers=(*request.headers, ("origin", PAGE))), body, rules=WITH_PAGE) is None
    )
    for other in (
        form(secret="test"),
        form(key="test"),
        form(fields={"policy": "e30="}),
        form(fields={"x-amz-signature": "0" * 64}),
        (replace(request, path="/other-bucket"), body),
    ):
        assert posted(*other) == "SignatureDoesNotMatch"


def test_a_forms_file_may_hold_anything():
    for file in (
        b"",
        b"\r\n",
        b"--\r\n",
        b'\r\ncontent-disposition: form-data; name="policy"\r\n\r\ne30=',
        bytes(256),
    ):
        assert posted(*form(file=file)) is None


PART = b'\r\ncontent-disposition: form-data; name="%s"\r\n\r\nx\r\n'


def put_first(body, mark, name):
    return mark + PART % name + body


def put_last(body, mark, name):
    return body.removesuffix(b"--\r\n") + PART % name + mark + b"--\r\n"


def test_a_form_that_could_be_read_in_two_ways_is_refused():
    request, body = form()
    mark = body[: body.index(b"\r\n")]
    assert posted(request, put_first(body, mark, b"x-ignore-me")) is None
    for other in (
        put_first(body, mark, b"KEY"),
        put_first(body, mark, b"file"),
        put_last(body, mark, b"x-ignore-me"),
        b"x" + body,
        body.removesuffix(b"--\r\n"),
        body + mark + b"--",
        mark + b"--",
        b"",
    ):
        assert posted(request, other) == "IncompleteSignature"


@pytest.mark.parametrize(
    ("sent", "changed"),
    [
        (b'name="file"', b'name="data"'),
        (b'name="policy"', b"name=policy"),
        (b'name="policy"', b'x="1"; name="policy"'),
        (b'name="policy"', b'name="other"'),
        (b"AWS4-HMAC-SHA256", b"AWS4-ECDSA-P256"),
        (b"/s3/", b"/ec2/"),
        (b"/aws4_request", b""),
    ],
)
def test_a_form_that_is_not_whole_is_refused(sent, changed):
    request, body = form()
    assert sent in body
    assert posted(request, body.replace(sent, changed)) == "IncompleteSignature"


def test_a_signed_policy_that_is_none_is_refused():
    scope = CredentialScope(KEY, "20260101", "us-east-1", "s3")
    for policy in (b"no json", b"[]", b"{}", b'{"conditions": 1}', b"\xff"):
        text = base64.b64encode(policy).decode()
        fields = {
            "policy": text,
            "x-amz-credential": f"{KEY}/{scope}",
            "x-amz-signature": sign(SECRET, scope, text),
        }
        assert posted(*form(fields=fields)) == "IncompleteSignature"


@pytest.mark.parametrize(
    "change",
    [
        {"method": "PUT"},
        {"path": "/"},
        {"path": "/b-1/k"},
        {"path": "/_ministack/reset"},
        {"query": "Action=x"},
        {"headers": (HOST, ("content-type", "multipart/form-data"))},
        {"headers": (HOST, ("content-type", "multipart/mixed; boundary=x"))},
        {"headers": (HOST, *[("content-type", "multipart/form-data; boundary=x")] * 2)},
    ],
)
def test_no_other_request_passes_as_a_form(change):
    request, _ = form()
    assert judge(replace(request, **change)) == "MissingAuthenticationToken"


@pytest.mark.parametrize("name", ["authorization", "x-amz-target", "x-amz-date"])
def test_a_form_has_no_headers_of_a_call(name):
    request, _ = form()
    assert judge(replace(request, headers=(*request.headers, (name, "x")))) == "MissingAuthenticationToken"


def test_a_form_reaches_the_emulator_whole_or_not_at_all():
    request, body = form()
    assert serve(request, body[:100], body[100:])[1] == [("/b-1", body)]
    (start, _), heard = serve(request, body[:100], body[101:])
    assert (start["status"], heard) == (403, [])
