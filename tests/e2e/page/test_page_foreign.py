"""What a foreign site can do with the chat page and its stage: nothing. And the policies that the page comes with."""

from __future__ import annotations

import re
import urllib.request

import pytest

from tests.e2e.page.stranger import a_stranger

pytestmark = pytest.mark.emulator

ROUTES = [
    "/",
    "/c/x",
    "/c/x/t/turn_1/r/2",
    "/c/x/f/fi:turn_1.outputs/a.html",
    "/c/x/timeline/turn_1/1?view=diff",
    "/search?q=x",
    "/callback",
    "/signed-out",
    "/bundle/default",
    "/no-such-route",
    "/config.json",
    "/index.html",
]
FRAMES = """<title>Stranger</title><iframe id="page" src="{page}"></iframe><iframe id="open" src="{page}c/x"></iframe>
<iframe id="frame" src="{page}frame.html"></iframe>"""
REACH = """async ([page, api, socket, issuer]) => {
  const results = {};
  const attempt = async (name, run) => { results[name] = await run().then(String, () => "refused") };
  const read = (url, options) => () => fetch(url, options).then(answer => answer.text());
  await attempt("config", read(`${page}config.json`, { credentials: "include" }));
  await attempt("page", read(page, { credentials: "include" }));
  await attempt("list", read(`${api}/v1/conversations`, { credentials: "include" }));
  await attempt("bearer", read(`${api}/v1/conversations`, { headers: { authorization: "Bearer x" } }));
  await attempt("ticket", read(`${api}/v1/socket-tickets`, { method: "POST", credentials: "include" }));
  await attempt("form", read(`${issuer}/authorize`, { method: "POST", body: new URLSearchParams({ user: "x" }) }));
  await attempt("token", read(`${issuer}/token`, { method: "POST", body: new URLSearchParams({ grant_type: "refresh_token" }) }));
  await attempt("socket", () => new Promise((run, fail) => {
    const wire = new WebSocket(socket);
    wire.onopen = () => run("open");
    wire.onerror = wire.onclose = fail;
  }));
  return results;
}"""


@pytest.fixture(scope="module")
def stranger():
    with a_stranger() as site:
        yield site


def policy_of(stage, path):
    """Return the directives of the policy of an address."""
    url = f"{stage.deployed.page_url.rstrip('/')}{path}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        header = answer.headers["Content-Security-Policy"]
    parts = (part.split() for part in header.split(";"))
    return {name: values for name, *values in parts}


@pytest.mark.parametrize("path", ROUTES)
def test_the_policy_of_every_route_lets_nothing_in_that_is_not_the_pages_own(scripted, path):
    policy = policy_of(scripted, path)
    assert "unsafe" not in str(policy)
    assert policy["default-src"] == ["'none'"]
    assert policy["script-src"] == ["'self'"]
    assert policy["style-src"] == ["'self'"]
    assert policy["require-trusted-types-for"] == ["'script'"]
    assert policy["trusted-types"] == ["'none'"]
    for name in ("frame-ancestors", "base-uri", "form-action"):
        assert policy[name] == ["'none'"]


def test_the_frame_of_artifacts_may_have_styles_within_and_nothing_else(scripted):
    policy = policy_of(scripted, "/frame.html")
    assert policy["style-src"] == ["'unsafe-inline'"]
    assert [name for name, values in policy.items() if "unsafe" in str(values)] == ["style-src"]
    assert policy["default-src"] == ["'none'"]
    assert policy["sandbox"] == ["allow-scripts"]
    assert policy["frame-ancestors"] == ["'self'"]
    (script,) = policy["script-src"]
    assert re.fullmatch(r"'sha256-[\w+/=]+'", script)


def test_a_foreign_site_can_not_frame_the_page_nor_hold_a_window_of_it(chat, stranger):
    page_url = chat.stage.deployed.page_url.rstrip("/") + "/"
    address = stranger.show("/frames", FRAMES.format(page=page_url))
    tab = chat.open_tab()
    tab.goto(address)
    for name in ("page", "open", "frame"):
        frame = tab.locator(f"#{name}").element_handle().content_frame()
        frame.wait_for_load_state()
        assert frame.evaluate("location.href").startswith("chrome-error:"), name
    with tab.expect_popup() as opening:
        tab.evaluate("url => { window.held = open(url) }", f"{page_url}c/x")
    opened = opening.value
    opened.get_by_role("alert").get_by_text("This conversation doesn't exist").wait_for(state="attached")
    assert tab.evaluate("held.closed || held.window === null") is True
    assert opened.evaluate("opener") is None
    opened.close()


def test_a_foreign_site_reads_and_writes_nothing_of_a_signed_in_user(chat, stranger):
    deployed = chat.stage.deployed
    tab = chat.open_tab()
    tab.goto(stranger.show("/reach", "<title>Stranger</title>"))
    page = deployed.page_url.rstrip("/") + "/"
    results = tab.evaluate(REACH, [page, deployed.api_url, deployed.socket_url, deployed.issuer_url])
    assert {*results.values()} == {"refused"}, results
