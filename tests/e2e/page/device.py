"""A browser in front of the chat page: what a person does and sees there, and what the browser reports."""

from __future__ import annotations

import re

from playwright.sync_api import expect

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
TURN_S = 120
IDLE = re.compile(r"idle")

_REPORT = """
document.addEventListener("securitypolicyviolation", event => noteViolation(
  `${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.sample}`));
"""


class Device:
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
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        return page

    def sign_in(self, path="/"):
        """Open the page and sign in at the local issuer's form."""
        self.page.goto(f"{self.stage.deployed.page_url.rstrip('/')}{path}")
        self.page.locator("#user").fill(self.user)
        self.page.keyboard.press("Enter")
        self.field.wait_for()

    @property
    def field(self):
        return self.page.locator("#composer-field")

    @property
    def readout(self):
        return self.page.locator(".readout")

    @property
    def turns(self):
        return self.page.locator("article.turn")

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

    def take_turn(self, text):
        """Say something and wait for the end of its turn; return the turn's element."""
        before = self.turns.count()
        self.say(text)
        expect(self.turns).to_have_count(before + 1)
        self.await_idle()
        return self.turns.last

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
