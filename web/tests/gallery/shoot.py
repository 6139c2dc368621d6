"""Screenshots of every state of the thread, light and dark, wide and narrow, with axe's findings for each.

Run `npx vite build -c tests/gallery/vite.config.ts`, then `python tests/gallery/shoot.py <folder> [state …]`. This needs
playwright and a Chromium at /usr/bin/chromium.
"""

import functools
import http.server
import json
import sys
import threading
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
WEB = HERE.parent.parent
SIZES = {"wide": (1184, 860), "narrow": (390, 844)}
THEMES = ("light", "dark")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SERIOUS = ("serious", "critical")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that does not log requests."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class names it so
        """Log nothing."""


def serve() -> tuple[http.server.ThreadingHTTPServer, str]:
    """Serve the built gallery on a free loopback port; return the server and its address."""
    handler = functools.partial(Quiet, directory=str(WEB / "node_modules" / ".gallery"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/"


def judge(page: Page) -> list[str]:
    """Return axe's serious findings in the page."""
    page.evaluate((WEB / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {json.dumps([node['target'] for node in violation['nodes']][:3])}"
        for violation in found["violations"]
        if violation["impact"] in SERIOUS
    ]


def main() -> int:
    """Take the screenshots and print axe's findings; return 1 if any is serious, or if a page threw."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    server, address = serve()
    failures = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        page.locator("li a").first.wait_for()
        names = sys.argv[2:] or page.locator("li a").all_inner_texts()
        for name in names:
            for size, (width, height) in SIZES.items():
                page.set_viewport_size({"width": width, "height": height})
                for theme in THEMES:
                    page.goto(f"{address}?state={name}&theme={theme}")
                    page.wait_for_selector("html[data-shown]")
                    page.wait_for_load_state("networkidle")
                    page.screenshot(path=str(folder / f"{name}-{size}-{theme}.png"), animations="disabled")
                    for finding in judge(page) + errors:
                        failures += 1
                        print(f"{name} {size} {theme}: {finding}")
                    errors.clear()
        browser.close()
    server.shutdown()
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
