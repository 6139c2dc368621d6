"""Pictures of the chat page on the local stage: light and dark, wide and narrow, and the two of the README.

`python -m tests.e2e.page.scenes <folder>` writes every picture there; with `--readme`, those of the README go to `docs/images`,
too. The stage has to use the scripted model, and `python web/tests/gallery/shoot.py` has the states of a thread.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from stepline.local.stage.deployed import REPOSITORY, load
from tests.e2e.page.chat_page import ARGUMENTS, NARROW, TURN_S, WIDE, ChatPage
from tests.e2e.stage import Stage

SIZES = {"wide": WIDE, "narrow": NARROW}
THEMES = ("light", "dark")
IMAGES = REPOSITORY / "docs/images"
README = {"running-wide-light": "chat.png", "inspector-wide-dark": "inspector.png"}
README_BYTES = 150_000
WRITE = "Write a CSV of sales over six months to sales.csv."
PLAN = "Make a plan with three steps, write it to a file with the word kumquat in it and read it back."
TOTALS = "Compute the monthly totals of sales.csv and draw a chart."
SEARCH = "Search for prompt caching and tell me what you find."


class Album:
    """A folder of pictures of one page."""

    def __init__(self, folder, chat):
        self.folder, self.chat = folder, chat

    def take(self, name, sizes=SIZES):
        """Take a scene in every size and theme."""
        page = self.chat.page
        for size, viewport in sizes.items():
            page.set_viewport_size(viewport)
            for theme in THEMES:
                page.emulate_media(color_scheme=theme)
                page.screenshot(path=self.folder / f"{name}-{size}-{theme}.png", animations="disabled")
        page.set_viewport_size(WIDE)


def first_run(album):
    album.chat.page.locator(".first").wait_for()
    album.chat.page.wait_for_load_state("networkidle")
    album.take("first")


def begin(chat):
    """Begin a new conversation."""
    chat.page.get_by_role("link", name="New conversation").first.click()
    chat.page.locator(".first").wait_for()


def running(album):
    """A plan, files, and a program that runs, with a message that waits for the next round."""
    chat = album.chat
    begin(chat)
    chat.take_turn(WRITE)
    chat.say(PLAN)
    chat.say(TOTALS)
    card = chat.turns.last.locator("section.program")
    card.wait_for(timeout=TURN_S * 1000)
    chat.say("Give the totals in euros, too.")
    # `expect` looks once a second, and a program may be faster.
    card.get_by_text("running", exact=True).wait_for(timeout=TURN_S * 1000)
    album.take("running")
    chat.await_idle()
    album.take("program")


def done(album):
    """An answer with its citations, the sources beside it, and the card of one."""
    chat = album.chat
    turn = chat.take_turn(SEARCH)
    turn.locator("a.cite").first.focus()
    album.take("done")


def inspector(album):
    """What the model read in the last round of the open conversation."""
    chat = album.chat
    # It may have been built anew since it was opened, and the inspector is a file of its own.
    chat.page.reload()
    chat.await_idle()
    chat.page.get_by_role("link", name="Timeline").click()
    chat.page.locator(".bench").wait_for()
    chat.page.wait_for_load_state("networkidle")
    album.take("inspector")


@contextmanager
def signed_in(stage, user):
    """A browser before the page, signed in."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("no Chromium on this machine (`apt-get install chromium`)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        chat = ChatPage(browser, stage, user=user)
        chat.sign_in()
        yield chat
        browser.close()


def shrink(source, target):
    """Save a picture with 256 colours, a difference that a page does not show."""
    picture = Image.open(source).convert("RGB")
    fewer = picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    fewer.save(target, optimize=True)
    if target.stat().st_size > README_BYTES:
        sys.exit(f"{target} has more than {README_BYTES} bytes")


def main():
    """Take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.page.scenes", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--readme", action="store_true", help="write docs/images, too")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    deployed = load()
    if deployed is None:
        sys.exit("no local stage is deployed: make up")
    stage = Stage(deployed)
    with signed_in(stage, f"ada-{secrets.token_hex(2)}") as chat:
        album = Album(asked.folder, chat)
        first_run(album)
        done(album)
        running(album)
        inspector(album)
    if asked.readme:
        IMAGES.mkdir(exist_ok=True)
        for scene, name in README.items():
            shrink(asked.folder / f"{scene}.png", IMAGES / name)


if __name__ == "__main__":
    main()
