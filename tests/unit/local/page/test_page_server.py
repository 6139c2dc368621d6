"""The answers of the chat page's server, and their recipients."""

import json

import pytest

from tests.unit.local.page.conftest import INDEX


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/c/chat-1",
        "/c/chat-1/t/turn_1/r/2",
        "/search?q=a",
        "/callback?code=x",
        "/signed-out",
        "/no-such",
    ],
)
def test_every_route_is_the_page(visitor, path):
    answer = visitor.ask(path)
    assert (answer.status, answer.text) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


def test_the_policy_names_the_origins_of_this_stage(visitor):
    assert visitor.ask("/").headers["content-security-policy"] == (
        "connect-src 'self' http://127.0.0.1:4566 ws://127.0.0.1:4566 http://127.0.0.1:4567 http://127.0.0.1:4566"
    )


def test_parts_of_the_page_are_kept_for_good_and_a_missing_one_is_missing(visitor):
    answer = visitor.ask("/assets/main-abc.js")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert answer.headers["cache-control"].endswith("immutable")
    assert visitor.ask("/assets/main-old.js").status == 404


def test_the_frame_has_its_own_rules(visitor):
    assert visitor.ask("/frame.html").headers["content-security-policy"].startswith("sandbox")


def test_a_cached_file_is_not_sent_again(visitor):
    first = visitor.ask("/")
    again = visitor.ask("/", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]


def test_texts_are_packed_for_who_unpacks_them(visitor):
    plain = visitor.ask("/assets/main-abc.js")
    packed = visitor.ask("/assets/main-abc.js", Accept_Encoding="gzip, br")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text
    assert len(packed.body) < len(plain.body)


def test_the_config_leads_to_the_stage_once_there_is_one(place):
    place.build_by_hand()
    with place.serving() as visitor:
        assert visitor.ask("/config.json").status == 503
        place.deploy()
        answer = visitor.ask("/config.json")
        assert json.loads(answer.text)["issuer"] == "http://127.0.0.1:4567"
        assert json.loads(answer.text)["ui"] == []
        assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../headers.json",
        "/assets/%2e%2e/headers.json",
        "/assets/..%2fheaders.json",
        "/assets//etc/passwd",
        "/assets/",
        "/ui/docs/../../stage.json",
        "/ui/docs/%2e%2e/%2e%2e/stage.json",
        "/ui/../stage.json",
        "/ui/other/index.html",
        "/ui/docs/.hidden",
        "/ui/docs/out.txt",
        "/ui/docs",
    ],
)
def test_no_address_leads_out(visitor, place, path):
    ui = place.home / "bundle/0123/bundles/docs/ui"
    ui.mkdir(parents=True)
    (ui / "index.html").write_text("a dashboard")
    (ui / ".hidden").write_text("hidden")
    (ui / "out.txt").symlink_to(place.home / "stage.json")
    assert visitor.ask(path).status == 404


def test_a_bundle_has_its_own_page_under_the_rules_of_bundles(visitor, place):
    for name, text in (("shop/ui/index.html", "a shop"), ("bundles/docs/ui/app.js", "let b;")):
        path = place.home / "bundle/0123" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    own = visitor.ask("/ui/default/")
    assert (own.text, own.headers["content-security-policy"]) == ("a shop", "sandbox allow-scripts")
    assert visitor.ask("/ui/docs/app.js").text == "let b;"
    assert json.loads(visitor.ask("/config.json").text)["ui"] == ["default", "docs"]


def test_the_page_offers_what_its_stage_does(visitor):
    assert json.loads(visitor.ask("/config.json").text)["suggestions"] == ["What does a lamp cost?"]


@pytest.mark.parametrize("host", ["evil.test", "evil.test:4569", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:4569"])
def test_a_foreign_name_that_leads_here_gets_nothing(visitor, host):
    assert visitor.ask("/config.json", host=host).status == 403
    assert visitor.ask("/", host=host).status == 403


def test_the_page_has_one_origin(visitor):
    answer = visitor.ask("/c/chat-1?x=1", host=f"localhost:{visitor.port}")
    assert (answer.status, answer.headers["location"]) == (
        308,
        f"http://127.0.0.1:{visitor.port}/c/chat-1?x=1",
    )


def test_the_page_server_accepts_no_posts(visitor):
    assert visitor.ask("/", method="POST", Content_Length="0").status == 501
    head = visitor.ask("/", method="HEAD")
    assert (head.status, head.body) == (200, b"")
