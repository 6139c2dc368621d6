"""A bundle's own page beside the chat: it reads with its user's rights over its port, and reaches nothing else."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect

from stepline.local.page.page_server import OWN
from stepline.local.stage.deployed import HOME
from tests.e2e.page.stranger import a_stranger
from tests.e2e.stage import a_word
from tests.unit.docs.source import DOCS

pytestmark = pytest.mark.emulator

INDEX = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Board</title>
<link rel="stylesheet" href="board.css"><script src="board.js"></script>
<h1>Board</h1><ul></ul><p id="tried"></p>"""
SCRIPT = """"use strict";
const waiting = new Map();
let port, id = 0;
const ask = (method, path, body) => new Promise(resolve => {
  id += 1;
  waiting.set(id, resolve);
  port.postMessage({ id, method, path, body });
});
const tried = (run) => { try { return String(run()); } catch { return "refused"; } };
const reach = (url, options) => fetch(url, options).then(() => "reached", () => "refused");
addEventListener("message", async ({ source, data, ports }) => {
  if (source !== parent || data.stepline !== 1 || port) return;
  port = ports[0];
  port.onmessage = ({ data }) => { waiting.get(data.id)(data); waiting.delete(data.id); };
  const list = await ask("GET", "/v1/conversations?limit=5");
  for (const { title } of list.body.items) document.querySelector("ul").append(
    Object.assign(document.createElement("li"), { textContent: title }));
  const said = {};
  for (const [method, path] of CALLS) said[`${method} ${path}`] = (await ask(method, path, {})).status;
  said.network = await reach(STRANGER + "/fetch");
  said.api = await reach(API + "/v1/conversations");
  said.config = await reach("/config.json");
  new Image().src = STRANGER + "/image";
  said.socket = tried(() => new WebSocket(SOCKET).readyState) === "0" ? "tried" : "refused";
  said.local = tried(() => localStorage.length);
  said.session = tried(() => sessionStorage.length);
  said.cookie = tried(() => document.cookie);
  said.database = tried(() => indexedDB.open("x").readyState);
  said.dom = tried(() => parent.document.title);
  said.opened = tried(() => open(STRANGER + "/popup"));
  said.top = tried(() => { top.location = STRANGER + "/top"; return "led"; });
  said.worker = tried(() => navigator.serviceWorker.register("board.js"));
  document.querySelector("#tried").textContent = JSON.stringify(said);
});
"""
CALLS = [
    ("POST", "/v1/socket-tickets"),
    ("DELETE", "/v1/conversations/x"),
    ("POST", "/v1/conversations/x/file-links"),
    ("POST", "/v1/conversations/x/uploads"),
    ("GET", "/v1/conversations/../socket-tickets"),
    ("GET", "//127.0.0.1/v1/conversations"),
    ("GET", "https://127.0.0.1/v1/conversations"),
    ("get", "/v1/conversations"),
    ("GET", "/v1/conversations/x/events?q=<script>"),
]


@pytest.fixture
def ui(scripted):
    """The folder of the page of the stage's own bundle."""
    home = HOME / "bundle" / f"page-{a_word()}"
    folder = home / scripted.deployed.bundle.replace(".", "/") / "ui"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(home)


@pytest.fixture
def board(scripted, ui, open_page):
    """The page of a fresh user and a stranger's site, while the stage's own bundle has a page beside the chat."""
    deployed = scripted.deployed
    with a_stranger() as stranger:
        known = {
            "STRANGER": stranger.url,
            "API": deployed.api_url,
            "SOCKET": deployed.socket_url,
            "CALLS": CALLS,
        }
        head = "\n".join(f"const {name} = {json.dumps(value)};" for name, value in known.items())
        (ui / "index.html").write_text(INDEX)
        (ui / "board.css").write_text("h1 { color: rgb(1, 2, 3) }")
        (ui / "board.js").write_text(f"{head}\n{SCRIPT}")
        chat = open_page()
        chat.sign_in()
        yield SimpleNamespace(chat=chat, stranger=stranger)


def test_a_bundles_page_reads_the_list_by_its_port_and_reaches_nothing_else(board):
    chat, word = board.chat, a_word()
    chat.take_turn(f"Hello {word}.")
    title = chat.page.get_by_role("heading", level=1).inner_text()
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name=f"Page of {OWN}").click()
    chat.page.wait_for_url(f"**/bundle/{OWN}")
    frame = chat.page.frame_locator("iframe.bundle-frame")
    expect(frame.locator("h1")).to_have_css("color", "rgb(1, 2, 3)")
    expect(frame.locator("li")).to_have_text([title])
    expect(frame.locator("#tried")).to_contain_text("worker")
    said = json.loads(frame.locator("#tried").inner_text())
    assert {said.pop(f"{method} {path}") for method, path in CALLS} == {403}
    assert said.pop("socket") in ("tried", "refused")
    assert said.pop("opened") in ("null", "refused")
    assert {*said.values()} <= {"refused"}, said
    assert board.stranger.connections == 0, board.stranger.heard
    assert chat.page.url.endswith(f"/bundle/{OWN}")
    assert len(chat.context.pages) == 1
    chat.expected("^policy: (connect-src|img-src)")


def test_the_dashboard_of_the_example_reads_the_conversations_of_its_user(ui, open_page):
    shutil.copytree(DOCS.parent / "examples/shop/ui", ui, dirs_exist_ok=True)
    chat = open_page()
    chat.sign_in()
    chat.take_turn(f"Hello {a_word()}.")
    chat.page.goto(f"{chat.page.url.partition('/c/')[0]}/bundle/{OWN}")
    frame = chat.page.frame_locator("iframe.bundle-frame")
    expect(frame.locator("#total")).to_have_text("0.00 euros in 1 conversations")
