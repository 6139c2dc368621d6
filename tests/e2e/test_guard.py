"""What a web page, another user of the machine and a name that leads here from afar get from a running emulator."""

import http.client
import json
import secrets
from urllib.parse import urlsplit

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from stepline.local.stage.deployed import client, credentials
from stepline.local.stage.lifecycle import mint

pytestmark = pytest.mark.emulator

EVIL = "http://evil.test"
KEYLESS = [
    ("GET", "/_ministack/health"),
    ("GET", "/_ministack/ready"),
    ("POST", "/_ministack/config"),
    ("GET", "/_ministack/ses/messages"),
    ("GET", "/_ministack/lambda-code/000000000000/us-east-1/stepline-local-sweeper"),
    ("GET", "/v2/credentials/00000000-0000-4000-8000-000000000000"),
    ("GET", "/latest/meta-data/iam/security-credentials/"),
    ("POST", "/2015-03-31/functions/stepline-local-sweeper/invocations"),
    ("GET", "/_aws/execute-api/stepline/live/@connections/x"),
]
"""Requests that gave something away, or did something, without any key. None of them does harm if it is obeyed."""


@pytest.fixture
def stored(stage):
    """The name of an object, and a signed address of it."""
    s3, where = (
        client("s3", stage.deployed),
        {"Bucket": stage.deployed.bucket, "Key": f"guard/{secrets.token_hex(6)}"},
    )
    s3.put_object(**where, Body=b"ours")
    key = {name.lower(): value for name, value in credentials().items()}
    signed = Config(signature_version="s3v4")
    signer = boto3.client("s3", endpoint_url=stage.deployed.endpoint, **key, config=signed)
    yield signer.generate_presigned_url("get_object", Params=where)
    s3.delete_object(**where)


def ask(stage, method, path, body=b"", **headers):
    """Return the status, the names of headers and the body of an answer."""
    connection = http.client.HTTPConnection(urlsplit(stage.deployed.endpoint).netloc, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body or None, named)
        answer = connection.getresponse()
        return answer.status, {name.lower() for name in answer.headers}, answer.read()
    finally:
        connection.close()


def api_path(stage):
    return urlsplit(stage.deployed.api_url).path.rstrip("/") + "/ticket"


def below(url):
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def shares(names):
    return {name for name in names if name.startswith("access-control-")}


def test_a_preflight_of_a_foreign_page_is_refused_and_shares_nothing(stage, stored):
    for path in ("/", "/2015-03-31/functions", api_path(stage), below(stored)):
        asked = {"Origin": EVIL, "Access_Control_Request_Method": "POST"}
        status, names, _ = ask(stage, "OPTIONS", path, **asked)
        assert (path, status, shares(names)) == (path, 403, set())


def test_a_foreign_name_for_this_machine_is_refused_before_anything_else(stage, stored):
    port = urlsplit(stage.deployed.endpoint).port
    for host in (
        f"evil.test:{port}",
        f"127.0.0.1.evil.test:{port}",
        f"bucket.s3.localhost:{port}",
        "127.0.0.1",
    ):
        for path in ("/_stepline/health", api_path(stage), below(stored)):
            assert (host, path, ask(stage, "GET", path, Host=host)[0]) == (host, path, 403)


@pytest.mark.parametrize(("method", "path"), KEYLESS)
def test_the_emulators_own_endpoints_require_a_key(stage, method, path):
    status, _, body = ask(stage, method, path, b"{}" if method == "POST" else b"")
    assert (status, json.loads(body)["code"]) == (403, "MissingAuthenticationToken")


@pytest.mark.parametrize("key", [None, "test", "000000000000"])
def test_no_call_passes_without_the_key_of_the_stage(stage, key):
    signs = {"aws_access_key_id": key or "x", "aws_secret_access_key": key or "x"}
    unsigned = None if key else Config(signature_version=UNSIGNED)
    place = {"endpoint_url": stage.deployed.endpoint, "region_name": stage.deployed.region}

    def stranger(service):
        return boto3.client(service, **place, **signs, config=unsigned)

    name = f"guard-{secrets.token_hex(4)}"
    role = "arn:aws:iam::000000000000:role/none"
    calls = [
        lambda: stranger("dynamodb").scan(TableName=stage.deployed.table, Limit=1),
        lambda: stranger("lambda").invoke(FunctionName="stepline-local-sweeper"),
        lambda: stranger("lambda").create_function(
            FunctionName=name, Role=role, Code={"ZipFile": b"-"}, Runtime="python3.12", Handler="a.b"
        ),
        lambda: stranger("s3").list_objects_v2(Bucket=stage.deployed.bucket, MaxKeys=1),
        lambda: stranger("iam").list_roles(MaxItems=1),
    ]
    for call in calls:
        with pytest.raises(ClientError) as refused:
            call()
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_no_answer_of_any_kind_is_shared_with_all_pages(stage, stored):
    answers = [
        ask(stage, "GET", "/_stepline/health"),
        ask(stage, "GET", api_path(stage)),
        ask(stage, "GET", below(stored)),
        ask(stage, "OPTIONS", api_path(stage)),
        ask(stage, "GET", "/"),
    ]
    assert [shares(names) for _, names, _ in answers] == [set()] * len(answers)
    described = client("dynamodb", stage.deployed).describe_table(TableName=stage.deployed.table)
    assert not shares(described["ResponseMetadata"]["HTTPHeaders"])


def test_a_page_opens_no_websocket_even_with_the_token_of_a_program(stage):
    named = {"Authorization": f"Bearer {mint(stage.deployed, stage.user)}"}
    with connect(stage.deployed.socket_url, additional_headers=named, proxy=None):
        pass
    with pytest.raises(InvalidStatus) as refused:
        connect(stage.deployed.socket_url, additional_headers=named, proxy=None, origin=EVIL)
    assert refused.value.response.status_code == 403


def test_a_signed_address_is_enough_for_its_object_and_for_nothing_else(stage, stored):
    path = below(stored)
    assert ask(stage, "GET", path)[::2] == (200, b"ours")
    scan = {"X_Amz_Target": "DynamoDB_20120810.ListTables", "Content_Type": "application/x-amz-json-1.0"}
    for status, _, body in (
        ask(stage, "GET", path, Origin=EVIL),
        ask(stage, "GET", path, Sec_Fetch_Site="cross-site"),
        ask(stage, "GET", path, b"{}", **scan),
        ask(stage, "GET", f"{path}&versionId=x"),
        ask(stage, "DELETE", path),
        ask(stage, "GET", path.replace("guard/", "guard/x")),
    ):
        assert (status, b"ours" in body, b"TableNames" in body) == (403, False, False)


def test_a_page_takes_no_work_from_a_function_and_answers_none(stage):
    client("lambda", stage.deployed).invoke(
        FunctionName="stepline-local-sweeper", Qualifier="live", Payload=b"{}"
    )
    for worker in stage.workers():
        for headers in ({"Host": "evil.test"}, {"Origin": EVIL}):
            connection = http.client.HTTPConnection(worker["AWS_LAMBDA_RUNTIME_API"], timeout=30)
            connection.request("POST", "/2018-06-01/runtime/invocation/x/response", b"{}", headers)
            assert connection.getresponse().status == 403
            connection.close()
    assert stage.workers()
