"""The files of the chat page: what is uploaded where, how long it is good for, and what goes when a release does."""

import io
import json
import threading
import zipfile
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import boto3
import pytest
from moto import mock_aws

from stepline_cdk import page_upload
from stepline_cdk.page_files import read_headers

from .conftest import ROOT
from .test_page_config import page_config

HEADERS = read_headers(ROOT)
HOSTS = "https://abc.example wss://def.example"


@pytest.fixture
def cloudformation():
    """A CloudFormation that waits for answers: its address, and what it heard."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/answer", heard
        server.shutdown()
        thread.join()


class Uploads:
    """A site's bucket, and a custom resource that uploads releases to it."""

    def __init__(self, url, heard):
        self.s3, self._url, self._heard = boto3.client("s3"), url, heard
        for bucket in ("assets", "site"):
            self.s3.create_bucket(Bucket=bucket)

    def archive(self, key, files):
        body = io.BytesIO()
        with zipfile.ZipFile(body, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
        self.s3.put_object(Bucket="assets", Key=key, Body=body.getvalue())

    def send(self, kind="Update", *, sources=None, **changes):
        """Send one event of CloudFormation, and return its answer."""
        properties = {
            "ServiceToken": "arn:function",
            "Bucket": "site",
            "Sources": [
                {"Prefix": prefix, "Bucket": "assets", "Key": key}
                for prefix, key in (sources or {"": "page.zip"}).items()
            ],
            "Config": '{"stage": "dev"}',
            "Connect": HOSTS,
            "CacheAssets": "immutable",
            "CacheOthers": "no-cache",
            "Headers": "{}",
            **changes,
        }
        event = {
            "RequestType": kind,
            "ResponseURL": self._url,
            "StackId": "arn:stack",
            "RequestId": "request-1",
            "LogicalResourceId": "Upload",
            "ResourceProperties": properties,
        }
        page_upload.handler(event, None)
        return self._heard[-1]

    def names(self):
        return {one["Key"] for one in self.s3.list_objects_v2(Bucket="site").get("Contents", [])}

    def object(self, key):
        return self.s3.get_object(Bucket="site", Key=key)


@pytest.fixture
def uploads(cloudformation, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield Uploads(*cloudformation)


def page(script):
    return {"index.html": f"<script src=/assets/{script}>", "frame.html": "f", f"assets/{script}": "x"}


def test_a_release_is_uploaded_with_types_caching_and_its_config(uploads):
    uploads.archive("page.zip", page("a.js"))
    answer = uploads.send("Create")
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "site")
    assert uploads.names() == {"index.html", "frame.html", "config.json", "assets/a.js"}
    found = {key: uploads.object(key) for key in uploads.names()}
    assert {key: (one["ContentType"], one["CacheControl"]) for key, one in found.items()} == {
        "index.html": ("text/html; charset=utf-8", "no-cache"),
        "frame.html": ("text/html; charset=utf-8", "no-cache"),
        "config.json": ("application/json", "no-cache"),
        "assets/a.js": ("text/javascript; charset=utf-8", "immutable"),
    }
    assert json.loads(found["config.json"]["Body"].read()) == {"stage": "dev"}


def test_the_hosts_of_the_policy_are_metadata_of_the_index_alone(uploads):
    uploads.archive("page.zip", page("a.js"))
    uploads.send("Create")
    metadata = {key: uploads.object(key)["Metadata"] for key in uploads.names()}
    assert metadata.pop("index.html") == {"connect": HOSTS}
    assert not any(metadata.values())


def test_a_dashboard_lies_below_the_name_of_its_bundle(uploads):
    uploads.archive("page.zip", page("a.js"))
    uploads.archive("shop.zip", {"index.html": "shop", "app.css": "b{}"})
    uploads.send("Create", sources={"": "page.zip", "ui/shop/": "shop.zip"})
    assert {"ui/shop/index.html", "ui/shop/app.css", "index.html"} <= uploads.names()
    assert uploads.object("ui/shop/index.html")["Body"].read().startswith(b"shop<!-- headers ")
    assert uploads.object("ui/shop/app.css")["Body"].read() == b"b{}"


@pytest.mark.parametrize("changes", [{"Connect": "https://new.example"}, {"Headers": '{"page": {}}'}])
def test_changed_headers_change_the_documents_etag(uploads, changes):
    uploads.archive("page.zip", page("a.js"))
    names = ("index.html", "frame.html", "assets/a.js")
    tags = []
    for change in ({}, {}, changes):
        uploads.send(**change)
        tags.append({name: uploads.object(name)["ETag"] for name in names})
    first, again, changed = tags
    assert first == again
    assert [first[name] == changed[name] for name in names] == [False, False, True]


def at(minute):
    return datetime(2026, 11, 1, 12, minute, tzinfo=UTC)


LIVE = {"index.html": at(30), "assets/live.js": at(29), "assets/former.js": at(0) - timedelta(days=1)}


@pytest.mark.parametrize(
    ("before", "stale"),
    [
        ({}, []),
        ({**LIVE, "assets/new.js": at(28)}, ["assets/former.js"]),
        (
            {**LIVE, "gone.svg": at(29), "ui/shop/app.js": at(29)},
            ["assets/former.js", "gone.svg", "ui/shop/app.js"],
        ),
        ({"assets/live.js": at(29)}, ["assets/live.js"]),
    ],
)
def test_an_open_page_finds_the_assets_of_its_release_until_the_one_after_the_next(before, stale):
    released = {"index.html", "config.json", "assets/new.js"}
    assert sorted(page_upload.find_stale(before, released)) == stale


def test_files_that_a_release_no_longer_has_are_deleted(uploads):
    uploads.archive("page.zip", {**page("a.js"), "gone.txt": "x"})
    uploads.send("Create")
    uploads.archive("page.zip", page("b.js"))
    uploads.send()
    assert uploads.names() == {"index.html", "frame.html", "config.json", "assets/a.js", "assets/b.js"}


def test_a_page_that_is_deleted_leaves_an_empty_bucket(uploads):
    uploads.archive("page.zip", page("a.js"))
    uploads.send("Create")
    assert uploads.send("Delete")["Status"] == "SUCCESS"
    assert uploads.names() == set()


def test_a_bucket_that_is_gone_has_nothing_to_delete(uploads):
    uploads.s3.delete_bucket(Bucket="site")
    assert uploads.send("Delete")["Status"] == "SUCCESS"


def test_a_failed_upload_is_reported_and_raised(uploads, cloudformation):
    with pytest.raises(uploads.s3.exceptions.NoSuchKey):
        uploads.send("Create")
    (answer,) = cloudformation[1]
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("the page was not uploaded: ")


@pytest.fixture(scope="module")
def upload(prod):
    (found,) = prod.resources("Custom::SteplinePage", of_page=True).values()
    return found


def test_the_page_has_the_config_of_the_ingress(prod, upload):
    assert json.loads(prod.roles.text("page", upload["Config"])) == page_config(prod)


def test_the_hosts_are_those_of_the_apis_of_the_sign_in_and_of_the_files_and_no_other(prod, dev, upload):
    apis = ["<HttpApi.ApiEndpoint>", "<SocketApi.ApiEndpoint>"]
    files = "https://<Artifacts.RegionalDomainName>"
    pool = ["https://cognito-idp.here.aws", "https://stepline-prod-us.auth.here.amazoncognito.com"]
    said = prod.roles.text("page", upload["Connect"]).split()
    assert [said[:2], said[2], said[4]] == [apis, pool[0], files]
    assert said[3] == pool[1]
    (elsewhere,) = dev.resources("Custom::SteplinePage", of_page=True).values()
    assert dev.roles.text("page", elsewhere["Connect"]).split() == [*apis, "https://login.example", files]


def test_the_upload_happens_again_when_a_header_changes(upload):
    assert json.loads(upload["Headers"]) == HEADERS


def test_files_are_good_for_as_long_as_their_headers_say(upload):
    assert (
        upload["CacheAssets"] == HEADERS["assets"]["Cache-Control"] == "public, max-age=31536000, immutable"
    )
    assert upload["CacheOthers"] == HEADERS["page"]["Cache-Control"] == "no-cache"


def test_the_function_is_one_file_that_needs_nothing_else(prod):
    (function,) = prod.resources("AWS::Lambda::Function", of_page=True).values()
    assert function["Handler"] == "page_upload.handler"
    (folder,) = {path.parent for path in prod.folder.glob("asset.*/page_upload.py")}
    assert [path.name for path in folder.iterdir()] == ["page_upload.py"]


def test_a_stage_of_this_machine_deploys_no_page(local):
    assert not local.resources("Custom::SteplinePage", of_page=True)
