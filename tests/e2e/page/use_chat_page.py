"""The page of examples/vite_chat, with `useChat` of npm and the packed `@stepline/ai-sdk`, before a browser."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import expect

from stepline.local.stage.lifecycle import mint
from tests.e2e.page.chat_page import TURN_S, WAIT_S

HARNESS = Path(__file__).with_name("use_chat") / "main.tsx"
"""Shows the conversation of the example, with what a test reads."""
PLACE = "use-chat"
"""The page's folder on the origin of the chat page."""


class UseChatPage:
    """One tab at one conversation. `problems` are errors of its scripts and of its console."""

    def __init__(self, context, files, stage, conversation):
        self.context, self.files, self.stage, self.conversation = context, files, stage, conversation
        self.problems = []
        self.origin = stage.deployed.page_url.rstrip("/")
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_S * 1000)
        self.page.expose_function("fetchToken", lambda: mint(stage.deployed, stage.user))
        self.page.route(f"{self.origin}/{PLACE}/**", self._serve)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        self.page.on("console", self._listen)

    def _serve(self, route):
        name = route.request.url.partition(f"/{PLACE}/")[2].partition("?")[0]
        route.fulfill(path=self.files / (name or "index.html"))

    def _listen(self, message):
        # A new conversation is not there before its first message.
        is_new = "404" in message.text and f"/{self.conversation}/events" in message.location["url"]
        if message.type in ("error", "warning") and not is_new:
            self.problems.append(f"{message.type}: {message.text}")

    def open(self, **query):
        """Load the page; `own` is the text that a component sends whose chat `useChat` made."""
        options = {"api": self.stage.deployed.api_url, "conversation": self.conversation, **query}
        self.page.goto(f"{self.origin}/{PLACE}/?{urlencode(options)}")
        self.main.wait_for()
        return self

    def reload(self):
        self.page.reload()
        self.main.wait_for()

    @property
    def main(self):
        return self.page.locator("main")

    @property
    def messages(self):
        return self.page.locator("article")

    @property
    def answer(self):
        """The newest message of the assistant."""
        return self.page.locator("article.assistant").last

    @property
    def text(self):
        """The texts of the newest message of the assistant."""
        return self.answer.locator("p").last

    @property
    def call(self):
        """The newest call of a tool."""
        return self.answer.locator("section").last

    def say(self, text, button="Send"):
        self.page.get_by_label("Message").fill(text)
        self.press(button)

    def press(self, button):
        self.page.get_by_role("button", name=button, exact=True).click()

    def await_status(self, status):
        expect(self.main).to_have_attribute("data-status", status, timeout=TURN_S * 1000)

    def await_end(self, count):
        """Wait until the log has the end of this many turns."""
        until = time.monotonic() + TURN_S
        while len(self.events("chat.complete")) < count:
            assert time.monotonic() < until, "the turn does not end"
            self.page.wait_for_timeout(200)

    def await_idle(self, count):
        """Wait until this many turns have ended, and the page has read the last one."""
        self.await_end(count)
        self.await_status("ready")

    def await_text(self, text):
        expect(self.text).to_contain_text(text, timeout=TURN_S * 1000)

    def has(self, expression):
        """Return what an expression over `chat`, `transport`, `texts` and `passing` is."""
        return self.page.evaluate(expression)

    def parts(self, kind):
        """Return the parts of a type, of the newest message of the assistant."""
        wanted = "chat.messages.findLast(({ role }) => role === 'assistant')?.parts ?? []"
        return [part for part in self.has(wanted) if part["type"] == kind]

    def events(self, kind):
        """Return the data of the durable events of a type, in order."""
        answer = self.stage.over_http().ask("GET", f"/v1/conversations/{self.conversation}/events")
        frames = answer.json()["events"] if answer.ok else []  # a conversation begins with its first message
        return [e["data"] for frame in frames for e in frame["events"] if e["type"] == kind]

    def expected(self, pattern):
        """Take problems that a test provoked from the list; there must be some."""
        found = [problem for problem in self.problems if re.search(pattern, problem)]
        assert found, f"nothing like {pattern} in {self.problems}"
        self.problems = [problem for problem in self.problems if problem not in found]

    def check(self):
        """Fail if the browser has reported anything that no test expected."""
        assert not self.problems, "\n".join(self.problems)
