import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from stepline.local.page.page_server import PageBuild, StageFacts, make_page_server
from tests.unit.local.page.visitor import Visitor

INDEX = "<!doctype html><title>Stepline</title>"
HEADERS = {
    "page": {
        "Content-Security-Policy": "connect-src 'self' {http} {socket} {issuer} {files}",
        "Cache-Control": "no-cache",
    },
    "frame": {"Content-Security-Policy": "sandbox allow-scripts; frame-ancestors 'self'"},
    "bundle": {"Content-Security-Policy": "sandbox allow-scripts", "Access-Control-Allow-Origin": "*"},
    "assets": {"Cache-Control": "public, max-age=31536000, immutable"},
}
CONFIG = {
    "issuer": "http://127.0.0.1:4567",
    "http_url": "http://127.0.0.1:4566/_aws/execute-api/a/$default",
    "socket_url": "ws://127.0.0.1:4566/_aws/execute-api/b/live",
    "stage": "local",
}
STAGE = {
    "endpoint": "http://127.0.0.1:4566",
    "issuer_url": "http://127.0.0.1:4567",
    "socket_url": CONFIG["socket_url"],
    "table": "t",
    "bucket": "b",
    "machine_arn": "m",
    "model_url": "",
    "fingerprint": "f",
    "bundle": "shop",
    "bundles": {"docs": "bundles.docs"},
    "requests": ["What does a lamp cost?"],
}


@dataclass
class Place:
    """A folder of a stage, and one of a page."""

    home: object
    web: object

    def deploy(self):
        (self.home / "outputs.json").write_text(json.dumps({"ingress": {"PageConfig": json.dumps(CONFIG)}}))
        (self.home / "stage.json").write_text(json.dumps(STAGE))

    def write(self, name, text):
        path = self.web / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def build_by_hand(self):
        self.write("dist/index.html", INDEX)
        self.write("dist/frame.html", "<!doctype html><title>frame</title>")
        self.write("dist/assets/main-abc.js", "let a = 1;" * 200)

    @contextmanager
    def serving(self, make=None):
        page = PageBuild(self.web, make) if make else PageBuild(self.web)
        server = make_page_server(0, StageFacts(self.home, self.web), page)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield Visitor(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path / "home", tmp_path / "web")
    made.home.mkdir()
    made.write("headers.json", json.dumps(HEADERS))
    return made


@pytest.fixture
def visitor(place):
    place.deploy()
    place.build_by_hand()
    with place.serving() as visitor:
        yield visitor
