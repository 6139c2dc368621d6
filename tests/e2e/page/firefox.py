"""Firefox before the chat page, driven by its own WebDriver BiDi, which needs no driver beside it.

Source: https://www.w3.org/TR/webdriver-bidi/
"""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import time
from contextlib import contextmanager

from websockets.sync.client import connect

from stepline.local.stage.deployed import REPOSITORY
from stepline.local.stage.issuer.owner_key import page_address
from tests.e2e.page.chat_page import TURN_S, WAIT_S

ENTER = "\ue007"
READ_PDF = """
import io, sys, pypdf
for page in pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages:
    print(page.extract_text())
"""
"""A program for the environment of the agent's programs, which has a reader of PDFs."""


class Firefox:
    """One window. Scripts run in the page's own world; keys come as from a keyboard."""

    def __init__(self, socket):
        self.socket, self.ids = socket, itertools.count(1)
        self.ask("session.new", capabilities={})
        self.window = self.ask("browsingContext.getTree")["contexts"][0]["context"]

    def ask(self, method, **params):
        """Send a command and return its result; events are not subscribed to."""
        command = next(self.ids)
        self.socket.send(json.dumps({"id": command, "method": method, "params": params}))
        while (said := json.loads(self.socket.recv(timeout=WAIT_S))).get("id") != command:
            pass
        assert said["type"] == "success", said
        return said["result"]

    def open(self, url):
        self.ask("browsingContext.navigate", context=self.window, url=url, wait="complete")

    def evaluate(self, script):
        """Return a string, number or boolean that a script evaluates to."""
        said = self.ask(
            "script.evaluate", expression=script, target={"context": self.window}, awaitPromise=True
        )
        assert said["type"] == "success", said
        return said["result"].get("value")

    def wait_for(self, script, wait_s=WAIT_S):
        """Wait until a script evaluates to something true, and return it; a page that is being replaced is asked again."""
        until = time.monotonic() + wait_s
        while not (found := self.evaluate(script)):
            assert time.monotonic() < until, f"{script}: {self.evaluate('document.body.innerText')}"
            time.sleep(0.1)
        return found

    def press(self, *keys):
        """Press keys one after the other and let them go in the same order."""
        actions = [{"type": act, "value": key} for act in ("keyDown", "keyUp") for key in keys]
        self.ask(
            "input.performActions",
            context=self.window,
            actions=[{"type": "key", "id": "keyboard", "actions": actions}],
        )

    def type(self, selector, text):
        """Focus a field and type."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        for character in text:
            self.press(character)

    def click(self, name):
        """Wait for a button by its accessible name, and click it."""
        button = (
            "[...document.querySelectorAll('button, [role=menuitem]')].find("
            f"one => [one.ariaLabel, one.innerText.trim()].includes({json.dumps(name)}))"
        )
        self.wait_for(f"Boolean({button})")
        self.evaluate(f"{button}.click()")

    def take_turn(self, text):
        """Send a message, after what the field already has, and wait for the end of its turn."""
        turns = "document.querySelectorAll('article.turn[id]').length"
        before = self.evaluate(turns)
        self.type("#composer-field", text)
        self.press(ENTER)
        self.wait_for(
            f"{turns} > {before} && /idle/.test(document.querySelector('.readout').innerText)", TURN_S
        )

    def sign_in(self, stage, user):
        """Open the page by the address that `stepline page` prints, and sign in at the local issuer's form."""
        self.open(page_address(stage.issuer_url))
        self.wait_for("document.querySelector('#user') !== null")
        self.type("#user", user)
        self.press(ENTER)
        self.wait_for("document.querySelector('main.desk') !== null")

    def print(self):
        """Return the text of the page on paper."""
        paper = base64.b64decode(self.ask("browsingContext.print", context=self.window)["data"])
        python = REPOSITORY / ".stepline/exec-env/bin/python"
        return subprocess.run(
            [python, "-c", READ_PDF], input=paper, stdout=subprocess.PIPE, check=True
        ).stdout.decode()


@contextmanager
def started(path, profile):
    """Start Firefox without a window in an empty profile, where it writes its address, and close it at the end."""
    command = [path, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"]
    address = profile / "WebDriverBiDiServer.json"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + WAIT_S
            while not (address.is_file() and (found := address.read_text())):
                assert time.monotonic() < until, "Firefox did not start"
                time.sleep(0.1)
            port = json.loads(found)["ws_port"]
            with connect(f"ws://127.0.0.1:{port}/session", max_size=None, open_timeout=WAIT_S) as socket:
                yield Firefox(socket)
        finally:
            process.terminate()
