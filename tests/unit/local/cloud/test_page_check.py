"""The check of a deployed page against its stage; the boundary is the answer of an address."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stepline.errors import DependencyError
from stepline.local.cloud.checks.page_check import PageResponse, check_page, fetch_page

OUTPUTS = {
    "PageUrl": "https://d1.cloudfront.example/",
    "PageHost": "d1.cloudfront.example",
    "HttpUrl": "https://api.example/",
}
PAGE = OUTPUTS["PageUrl"]
POLICY = (
    "default-src 'none'; connect-src 'self' https://api.example; frame-ancestors 'none'; trusted-types 'none'"
)
HEADERS = {"content-security-policy": POLICY, "strict-transport-security": "max-age=31536000"}
NARROW = {**HEADERS, "content-security-policy": POLICY.replace(" https://api.example", "")}


def answer(body=b"", *, status=200, **headers):
    return PageResponse(status=status, headers=headers, body=body)


def site(**changes):
    """Return a function that answers for a site, with other answers for `config` or `index`."""
    answers = {
        "config": answer(json.dumps({"http_url": OUTPUTS["HttpUrl"]}).encode()),
        "index": answer(b"<!doctype html>", **HEADERS),
        **changes,
    }

    def ask(url):
        if not url.startswith(PAGE):
            raise DependencyError(f"{url} does not answer", code="smoke_failed")
        return answers["config" if url.endswith("/config.json") else "index"]

    return ask


def test_a_page_that_answers_with_its_policy_and_its_stage_is_fine():
    check = check_page("dev", OUTPUTS, site())
    assert (check.ok, check.note, check.detail) == (True, "", PAGE)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"index": answer(status=403)}, "403 for index.html"),
        ({"config": answer(status=404)}, "404 for config.json"),
        ({"config": answer(b"<html>")}, "is not the config of a chat page"),
        ({"config": answer(b"[]")}, "is not the config of a chat page"),
        ({"config": answer(b'{"http_url": "https://other.example/"}')}, "names another stage"),
        ({"index": answer()}, "lacks default-src 'none'"),
        ({"index": answer(**NARROW)}, "lacks https://api.example"),
        (
            {"index": answer(**{"content-security-policy": POLICY})},
            "lacks the header Strict-Transport-Security",
        ),
    ],
)
def test_a_page_that_is_another_or_says_too_little_is_named(changes, said):
    check = check_page("dev", OUTPUTS, site(**changes))
    assert not check.ok
    assert said in check.detail


def test_a_distribution_that_does_not_answer_is_a_failure():
    check = check_page("dev", {**OUTPUTS, "PageHost": "gone.example"}, site())
    assert (check.ok, "does not answer" in check.detail) == (False, True)


def test_a_domain_that_leads_nowhere_yet_names_the_record_and_fails_nothing():
    check = check_page("dev", {**OUTPUTS, "PageUrl": "https://chat.example/"}, site())
    assert (check.ok, check.note) == (True, "warn")
    assert check.remedy == "add a DNS record: chat.example CNAME d1.cloudfront.example"


def test_a_stage_of_an_earlier_release_has_no_page_and_hears_how_to_have_one():
    check = check_page("dev", {})
    assert (check.ok, check.note, check.remedy) == (True, "warn", "stepline deploy --stage dev")


@pytest.fixture
def server():
    """The address of a site that redirects."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"no")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_redirect_is_returned_unchanged_and_not_followed(server):
    found = fetch_page(server)
    assert (found.status, found.headers["location"], found.body) == (302, "/elsewhere", b"no")


def test_an_address_without_an_answer_is_an_error_with_its_name(server):
    url = server.replace("127.0.0.1", "127.0.0.1.invalid")
    with pytest.raises(DependencyError, match=r"invalid.* does not answer") as caught:
        fetch_page(url)
    assert caught.value.reason == "smoke_failed"
