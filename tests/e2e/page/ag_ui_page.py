"""The page of examples/copilot in a browser: `@ag-ui/client` of npm, with our agent as it is packed.

With the harness of the tests it is served under the address of the stage's own page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from stepline.local.stage.lifecycle import mint
from tests.e2e.page.chat_page import WAIT_S

HARNESS = Path(__file__).with_name("ag_ui") / "main.ts"
"""Gives the page of the example the agent of a test."""
FOLDER = "/ag-ui/"
TURN_MS = 180_000


class AgUiPage:
    """One tab of the page, for a conversation of a user."""

    def __init__(self, tab, stage, conversation, built):
        self.page, self.stage, self.conversation = tab, stage, conversation
        self.problems = []
        # What is served here has no address of its own, and may not connect to this machine's without leave.
        tab.context.grant_permissions(["local-network-access"])
        tab.set_default_timeout(WAIT_S * 1000)
        tab.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        tab.route(f"**{FOLDER}**", lambda route: _serve(route, built))
        options = {
            "url": stage.deployed.api_url,
            "token": mint(stage.deployed, stage.user),
            "conversation": conversation,
        }
        tab.add_init_script(f"window.options = {json.dumps(options)}")

    def open(self):
        """Load the page, and wait until it has begun to restate the conversation."""
        self.page.goto(f"{self.stage.deployed.page_url.rstrip('/')}{FOLDER}")
        return self

    def await_connection(self):
        self.page.locator("body[data-connected]").wait_for(timeout=TURN_MS)
        return self

    def twin(self, built):
        """Return another tab of this browser for the conversation, not yet open."""
        return AgUiPage(self.page.context.new_page(), self.stage, self.conversation, built)

    @property
    def status(self):
        return self.page.locator("output")

    @property
    def said(self):
        """The messages of the assistant with text, and the names of calls."""
        return self.page.locator("li[data-role=assistant]")

    def texts(self, role="assistant"):
        return self.page.locator(f"li[data-role={role}]").all_text_contents()

    def fill(self, text):
        self.page.get_by_label("Message").fill(text)

    def press(self, name):
        self.page.get_by_role("button", name=name, exact=True).click()

    def say(self, text, *files):
        self.page.get_by_label("Attach").set_input_files(list(files))
        self.fill(text)
        self.press("Send")

    def await_status(self, status):
        expect(self.status).to_have_text(status, timeout=TURN_MS)

    def await_idle(self, prompts):
        """Wait until no run is active, and this number of messages of the user are shown."""
        idle = "prompts => !agent.isRunning && agent.messages.filter(({ role }) => role === 'user').length === prompts"
        self.page.wait_for_function(idle, arg=prompts, timeout=TURN_MS)

    def await_answer(self, text):
        """Wait until some of the answer, with this text, is shown."""
        expect(self.said.last).to_contain_text(text, timeout=TURN_MS)

    def evaluate(self, script):
        """Return the value of an expression on the page, which has `events`."""
        return self.page.evaluate(script)

    def kinds(self):
        return self.evaluate("events.map(({ type }) => type)")

    def check(self):
        assert not self.problems, "\n".join(self.problems)


def _serve(route, built):
    name = re.sub(f"^.*{FOLDER}", "", route.request.url).partition("?")[0] or "index.html"
    route.fulfill(path=built / name)
