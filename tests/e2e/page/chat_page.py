"""A browser in front of the chat page: what a person does and sees there, and what the browser reports."""

from __future__ import annotations

import copy
import re
import time

from playwright.sync_api import expect

from stepline.local.stage.issuer.owner_key import page_address

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE = {"width": 1360, "height": 860}
NARROW = {"width": 390, "height": 844}
BRIEF = "What did I say before?"
"""A request that the scripted model answers in a few words, with those that came before it."""
TURN_S = 180
WAIT_S = 60
IDLE = re.compile(r"idle")

_REPORT = """
document.addEventListener("securitypolicyviolation", event => noteViolation(
  `${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.sample}`));
"""


class ChatPage:
    """One browser context and its first page. `problems` are policy reports, errors of scripts and of the console."""

    def __init__(self, browser, stage, *, viewport=WIDE, user="", **options):
        self.stage, self.user = stage, user or stage.user
        self.context = browser.new_context(viewport=viewport, **options)
        self.problems = []
        self.context.expose_binding("noteViolation", lambda _, said: self.problems.append(f"policy: {said}"))
        self.context.add_init_script(_REPORT)
        self.page = self.open_tab()

    def open_tab(self):
        """Return one more tab of this browser."""
        page = self.context.new_page()
        page.set_default_timeout(WAIT_S * 1000)
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        return page

    def sign_in(self, path="/"):
        """Open the page and sign in at the local issuer's form, with a browser that has shown the owner's key."""
        self.context.request.get(page_address(self.stage.deployed.issuer_url), max_redirects=0)
        self.open(path)
        self.page.locator("#user").fill(self.user)
        self.page.keyboard.press("Enter")
        self.page.locator("main.desk").wait_for()

    def open(self, path):
        """Load an address of the page, as by a link from elsewhere."""
        self.page.goto(f"{self.stage.deployed.page_url.rstrip('/')}{path}")

    def beside(self, tab):
        """Return another tab of this browser, to be used like this one."""
        twin = copy.copy(self)
        twin.page = tab
        return twin

    @property
    def field(self):
        return self.page.locator("#composer-field")

    @property
    def readout(self):
        return self.page.locator(".readout")

    @property
    def turns(self):
        """The turns that have begun; a message that is only on its way opens none."""
        return self.page.locator("article.turn[id]")

    @property
    def answering(self):
        """The text of the answer that is being written."""
        return self.turns.last.locator(".say.growing .md")

    @property
    def margin(self):
        return self.page.get_by_role("complementary")

    @property
    def conversation(self):
        """The name of the open conversation."""
        return re.search(r"/c/([^/?]+)", self.page.url)[1]

    def say(self, text):
        """Type a message and send it: a prompt, or one more message to a turn that runs."""
        self.field.fill(text)
        self.page.keyboard.press("Enter")

    def redirect(self, text):
        self.field.fill(text)
        self.page.keyboard.press("Control+Enter")

    def stop(self):
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Escape")

    def await_idle(self):
        """Wait until nothing runs."""
        expect(self.readout).to_have_text(IDLE, timeout=TURN_S * 1000)

    def await_answer(self, text=""):
        """Wait until some of the answer, or this text of it, is shown while it is written."""
        expect(self.answering).to_contain_text(text or re.compile(r"\w"), timeout=TURN_S * 1000)

    def line_of(self, text):
        """Return the line of a message on the rail of the newest turn."""
        return self.turns.last.locator("li.wait, li.heard").filter(has_text=text)

    def tab_to(self, control, key="Tab", most=80):
        """Press a key until the focus is on a control; fail if it never comes there."""
        for _ in range(most):
            if control.evaluate("element => element === document.activeElement"):
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"{key} does not lead to {control}")

    def use_letters(self):
        """Turn the keys of single letters on, which are off until a person does."""
        more = self.page.get_by_role("button", name="More")
        more.click()
        self.page.get_by_role("checkbox", name="Single-letter shortcuts").check()
        self.page.keyboard.press("Escape")
        expect(more).to_be_focused()

    def take_turn(self, text):
        """Say something and wait for the end of its turn; return the turn's element."""
        before = self.turns.count()
        self.say(text)
        expect(self.turns).to_have_count(before + 1)
        self.await_idle()
        return self.turns.last

    def open_round(self, turn, tool_id):
        """Open the round of a turn that called a tool, if it is folded."""
        line = turn.locator("li.round button.line").filter(has_text=tool_id)
        if line.get_attribute("aria-expanded") != "true":
            line.click()

    @property
    def feed(self):
        return self.page.get_by_role("feed")

    def thread_text(self):
        """Return all visible text of the thread."""
        return self.feed.inner_text()

    def events(self):
        """Return the durable events of the open conversation, in order, as the API returns them."""
        page = self.stage.over_http(self.user).get(f"/v1/conversations/{self.conversation}/events")
        return [event for frame in page["events"] for event in frame["events"]]

    def wait_for_events(self, kind, count):
        """Return the events of a type when there are `count` of them."""
        until = time.monotonic() + WAIT_S
        while len(found := [event for event in self.events() if event["type"] == kind]) < count:
            assert time.monotonic() < until, f"{len(found)} of {count} events {kind}"
            self.page.wait_for_timeout(200)
        return found

    def answer_of(self, turn):
        """Return the text of a turn's last answer."""
        return turn.locator(".say").last.inner_text()

    def expected(self, pattern):
        """Take problems that a test provoked from the list; there must be some."""
        found = [problem for problem in self.problems if re.search(pattern, problem)]
        assert found, f"nothing like {pattern} in {self.problems}"
        self.problems = [problem for problem in self.problems if problem not in found]

    def close(self):
        self.context.close()

    def check(self):
        """Fail if the browser has reported anything that no test expected."""
        assert not self.problems, "\n".join(self.problems)
